//! `/datasets`: results that outlived their jobs.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{delete, get};
use axum::{Json, Router};
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::error::ApiError;
use super::routes::{Answer, Segments, Shared, segments};
use crate::core::data_sets::ReleaseState;
use crate::graph::DataSetId;

pub(super) fn routes() -> Router<Arc<dyn Cluster>> {
    Router::new()
        .route("/datasets", get(list))
        .route("/datasets/{id}", delete(release))
        .route("/datasets/delete/{trigger}", get(released))
}

async fn list(State(cluster): Shared) -> Json<Value> {
    let sets = cluster.data_sets();
    let sets = sets.iter().map(|(id, is_complete)| json!({ "id": id, "isComplete": is_complete }));
    Json(json!({ "dataSets": sets.collect::<Vec<_>>() }))
}

fn id(name: &str, text: &str) -> Result<DataSetId, ApiError> {
    text.parse().map_err(|_| ApiError::parameter("path", name, text))
}

/// Answered at once; the trigger's identifier is that of the data set, which is released once.
async fn release(State(cluster): Shared, path: Segments<String>) -> Result<(StatusCode, Json<Value>), ApiError> {
    let id = id("datasetid", &segments(path)?)?;
    cluster.release_data_set(id);
    Ok((StatusCode::ACCEPTED, Json(json!({ "request-id": id }))))
}

async fn released(State(cluster): Shared, path: Segments<String>) -> Answer {
    let id = id("triggerid", &segments(path)?)?;
    match cluster.data_set_release(id) {
        Some(ReleaseState::InProgress) => Ok(Json(json!({ "status": { "id": "IN_PROGRESS" }, "operation": null }))),
        Some(ReleaseState::Completed) => Ok(Json(json!({ "status": { "id": "COMPLETED" }, "operation": {} }))),
        None => Err(ApiError::not_found(format_args!("Operation not found under key: {id}"))),
    }
}
