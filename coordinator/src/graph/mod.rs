//! Jobs as users write them.
//!
//! A job is an ordinary Rust function that builds a [`JobGraph`] from [`Params`]; it is registered by name in a
//! [`JobRegistry`]. Coordinator and executors are processes of the *same binary*, so each of them builds the same
//! graph again from the name and the parameters: no code is ever shipped.

pub mod builder;
mod co_location;
pub mod enricher;
pub mod ids;
pub mod job;
pub mod partition;
pub mod registry;
pub mod user;

pub use builder::{JobGraphBuilder, VertexHandle};
pub use enricher::{FailureEnricher, FailureLabels, FailureReport, FailureScope, LabelTaken};
pub use ids::{AttemptId, DataSetId, ExecutorId, JobId, PartitionId, ResultPartitionId, TaskId, VertexId};
pub use job::{Edge, JobGraph, JobGraphError, JobKind, MakeCode, Vertex, VertexCode};
pub use partition::{DistributionPattern, ResultPartitionType, ShipStrategy};
pub use registry::{JobRegistry, ParamError, Params, RegisteredJob};
pub use user::{
    Collector, Operator, Record, Source, SourceStatus, Split, SplitSource, TaskContext, TaskError, TaskInfo,
};
