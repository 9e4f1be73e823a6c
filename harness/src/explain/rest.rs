//! From REST answers to a [`Picture`]: read leniently where a default is honest, refused by name where it is not.

use serde_json::Value;
use stormproof_coordinator::core::status::ExecutionState;

use super::error::ExplainError;
use super::picture::{Attempt, JobHead, Picture, state};
use super::vertices::{self, RestVertex};
use crate::timeline::ObservedPlan;

/// An answer of the REST API, and where it is from.
#[derive(Debug, Clone, PartialEq)]
pub struct Saved {
    /// A file's name or a call, for messages.
    pub place: String,
    /// The answer.
    pub value: Value,
}

impl Saved {
    /// Reads a saved answer.
    ///
    /// # Errors
    /// If it is not JSON, or an answer that says that something went wrong.
    pub fn parse(place: impl Into<String>, text: &str) -> Result<Self, ExplainError> {
        let place = place.into();
        match serde_json::from_str(text) {
            Ok(value) => Self { place, value }.checked(),
            Err(source) => Err(ExplainError::Json { place, source }),
        }
    }

    fn checked(self) -> Result<Self, ExplainError> {
        if !self.value.is_object() {
            return Err(self.shape("is not a JSON object"));
        }
        if let Some(errors) = self.value.get("errors") {
            let first = errors.get(0).and_then(Value::as_str).unwrap_or_default();
            return Err(self.shape(&format!("is an error answer: {}", first.lines().next().unwrap_or_default())));
        }
        Ok(self)
    }

    pub(super) fn shape(&self, problem: &str) -> ExplainError {
        ExplainError::Shape { place: self.place.clone(), problem: problem.to_owned() }
    }

    pub(super) fn text(&self, key: &str) -> &str {
        text(&self.value, key).unwrap_or_default()
    }
}

/// A text field.
pub(super) fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

/// A whole number; floats without a fraction count.
pub(super) fn whole(value: &Value) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "checked to be whole; the cast saturates")]
    let float = || value.as_f64().filter(|number| number.fract() == 0.0).map(|number| number as i64);
    value.as_i64().or_else(float)
}

/// What stands in a field, for a message.
pub(super) fn found(value: Option<&Value>) -> String {
    /// Longest value that is quoted, characters.
    const QUOTED: usize = 40;
    let Some(value) = value else { return "nothing".to_owned() };
    let text = value.to_string();
    if text.chars().count() <= QUOTED { text } else { format!("{}…", text.chars().take(QUOTED).collect::<String>()) }
}

impl Picture {
    /// The job as these answers show it: `GET /jobs/:id` (or only `GET /jobs/:id/plan`), and `GET
    /// /jobs/:id/vertices/:vid` of any of its vertices. Where a state is not told, it is derived from the vertex's
    /// counts, or taken to be RUNNING; [`super::Explanation::notes`] say so.
    ///
    /// # Errors
    /// If an answer makes no sense; the error names the vertex.
    pub fn of_rest(job: &Saved, details: &[Saved]) -> Result<Self, ExplainError> {
        let plan = job.value.get("plan").filter(|plan| plan.is_object());
        let plan = plan.or_else(|| job.value.get("nodes").map(|_| &job.value));
        let Some(plan) = plan else {
            return Err(job.shape("has no `plan`; save the answer of `GET /jobs/:id`"));
        };
        let head = head(job, plan);
        let mut notes = vec![];
        let mut known = vertices::read(job, plan, &mut notes)?;
        if known.is_empty() && head.id.is_empty() {
            return Err(job.shape("shows no vertices, nor of which job it is; save the answer of `GET /jobs/:id`"));
        }
        if known.is_empty() {
            let state = if head.state.is_empty() { "in an unknown state".to_owned() } else { head.state };
            return Err(ExplainError::NoVertices { job: head.id, state });
        }
        let edges = vertices::edges(plan, &known, &mut notes)?;
        known.retain(|vertex| !vertex.is_undecided);
        let observed = ObservedPlan { vertices: known.iter().map(RestVertex::observed).collect(), edges };
        note_progress(job, &head, &mut notes);
        let ids = known.iter().map(|vertex| vertex.id.clone()).collect();
        let mut picture = Self::lay_out(head, &observed, ids, vec![])?;
        // Only now: every parallelism was checked, so this many attempts are no surprise.
        picture.attempts = attempts(&known, details, &mut notes)?;
        picture.notes = notes;
        Ok(picture)
    }
}

fn head(job: &Saved, plan: &Value) -> JobHead {
    let either = |key| text(&job.value, key).or_else(|| text(plan, key)).unwrap_or_default().to_owned();
    JobHead { id: either("jid"), name: either("name"), state: job.text("state").to_owned() }
}

fn note_progress(job: &Saved, head: &JobHead, notes: &mut Vec<String>) {
    if matches!(head.state.as_str(), "FINISHED" | "FAILED" | "CANCELED") {
        notes.push(format!("the job is {}: nothing restarts any more", head.state));
    }
    if let Some(pending) = job.value.get("pending-operators").and_then(whole).filter(|pending| *pending > 0) {
        notes.push(format!("{pending} operators are not planned yet and so not part of the answer"));
    }
}

fn attempts(known: &[RestVertex], details: &[Saved], notes: &mut Vec<String>) -> Result<Vec<Attempt>, ExplainError> {
    let mut of_vertex: Vec<Option<&Saved>> = vec![None; known.len()];
    for detail in details {
        let id = detail.text("id");
        let Some(position) = known.iter().position(|vertex| vertex.id == id) else {
            let (place, vertex) = (detail.place.clone(), id.to_owned());
            return Err(ExplainError::ForeignVertex { place, vertex });
        };
        if of_vertex[position].replace(detail).is_some() {
            return Err(ExplainError::Twice(known[position].name.clone()));
        }
    }
    let mut attempts = vec![];
    for (vertex, detail) in known.iter().zip(of_vertex) {
        attempts.extend(match detail {
            None => counted(vertex, notes)?,
            Some(detail) => detailed(vertex, detail, notes)?,
        });
    }
    Ok(attempts)
}

/// By the vertex's own answer. What that leaves out is as in [`counted`].
fn detailed(vertex: &RestVertex, detail: &Saved, notes: &mut Vec<String>) -> Result<Vec<Attempt>, ExplainError> {
    let Some(subtasks) = detail.value.get("subtasks").and_then(Value::as_array) else {
        return Err(detail.shape("has no list `subtasks`; save the answer of `GET /jobs/:id/vertices/:vid`"));
    };
    let mut given: Vec<Option<Attempt>> = vec![None; vertex.parallelism as usize];
    for entry in subtasks {
        let field = |field| ExplainError::Field { vertex: vertex.name.clone(), field, found: found(entry.get(field)) };
        let number = |key| entry.get(key).and_then(whole).and_then(|number| u32::try_from(number).ok());
        let subtask = number("subtask").ok_or_else(|| field("subtask"))?;
        let slot = given.get_mut(subtask as usize).ok_or_else(|| ExplainError::Subtask {
            vertex: vertex.name.clone(),
            subtask,
            parallelism: vertex.parallelism,
        })?;
        let status = text(entry, "status").ok_or_else(|| field("status"))?;
        let place = text(entry, "taskmanager-id").filter(|id| !id.is_empty() && !id.starts_with('('));
        *slot = Some(Attempt {
            state: state(&vertex.name, status)?,
            number: number("attempt"),
            executor: place.map(str::to_owned),
        });
    }
    if given.iter().all(Option::is_some) {
        return Ok(given.into_iter().flatten().collect());
    }
    let missing = given.iter().filter(|attempt| attempt.is_none()).count();
    notes.push(format!("{} leaves out {missing} subtasks of `{}`", detail.place, vertex.name));
    let rest = counted(vertex, notes)?;
    Ok(given.into_iter().zip(rest).map(|(given, guessed)| given.unwrap_or(guessed)).collect())
}

/// By the counts of the job's answer: exact where all subtasks are in one state.
fn counted(vertex: &RestVertex, notes: &mut Vec<String>) -> Result<Vec<Attempt>, ExplainError> {
    let unknown = |state| Attempt { state, number: None, executor: None };
    let mut states = vec![];
    for (name, count) in &vertex.counts {
        states.extend(std::iter::repeat_n(state(&vertex.name, name)?, *count as usize));
    }
    if states.len() != vertex.parallelism as usize {
        notes.push(format!("the states of `{}` are not known: taken to be RUNNING", vertex.name));
        states = vec![ExecutionState::Running; vertex.parallelism as usize];
    } else if vertex.counts.len() > 1 {
        let counts: Vec<_> = vertex.counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
        notes.push(format!(
            "`{}` has {}; which subtask is which is a guess, its --vertex-file would tell",
            vertex.name,
            counts.join(", ")
        ));
    }
    Ok(states.into_iter().map(unknown).collect())
}
