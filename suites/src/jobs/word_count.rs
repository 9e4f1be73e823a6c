//! A batch word count over real files: `read` (splits handed out by the coordinator) → hash, blocking → `count` →
//! forward, blocking → `write` (sorted, one file a subtask, renamed into place).
//!
//! Parameters: `input` (folder of text), `output` (folder, made), `parallelism` (default 3), `faults` (see
//! [`Gate`]).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stormproof::job::{
    Collector, JobGraph, JobGraphError, JobKind, Operator, Params, Record, ResultPartitionType, ShipStrategy, Source,
    SourceStatus, Split, TaskContext, TaskError, TaskInfo,
};

use super::gate::Gate;
use super::text::{Piece, WordCounter, text_files};

/// Registered name.
pub const NAME: &str = "word-count";

/// All parameters.
pub const PARAMS: [&str; 4] = ["input", "output", "parallelism", "faults"];

/// Builds the job.
///
/// # Errors
/// When the input folder is missing or holds no text.
pub fn graph(params: &Params) -> Result<JobGraph, JobGraphError> {
    let parallelism = params.parse_or("parallelism", 3_u32)?;
    let input = PathBuf::from(params.require("input")?);
    let output = PathBuf::from(params.require("output")?);
    fs::read_dir(&input)
        .map_err(|error| JobGraphError::Refused(format!("cannot read input folder {}: {error}", input.display())))?;
    let mut job = JobGraph::builder(NAME, JobKind::Batch);
    let splits = Arc::new(move || splits(&input));
    let read = job.split_source("read", parallelism, splits, |info| {
        Ok(Box::new(Read { gate: Gate::of(info), counts: BTreeMap::new(), open: None }))
    });
    let count = job
        .operator("count", parallelism, |info| Ok(Box::new(Count { gate: Gate::of(info), counts: BTreeMap::new() })));
    let write = job.operator("write", parallelism, move |info| Ok(Box::new(Write::new(info, &output))));
    job.connect(read, count, ShipStrategy::Hash, ResultPartitionType::Blocking);
    job.connect(count, write, ShipStrategy::Forward, ResultPartitionType::Blocking);
    job.build()
}

fn splits(input: &Path) -> Result<Vec<Split>, TaskError> {
    let files = text_files(input)
        .map_err(|error| TaskError::from_error(&error).context(format!("could not list {}", input.display())))?;
    let split = |(index, path): (usize, PathBuf)| Split {
        index: u32::try_from(index).unwrap_or(u32::MAX),
        label: path.display().to_string(),
        payload: path.into_os_string().into_vec(),
    };
    Ok(files.into_iter().enumerate().map(split).collect())
}

/// Reads its splits and counts their words, so that a word travels once a task and not once an occurrence.
struct Read {
    gate: Gate,
    counts: BTreeMap<String, u64>,
    /// The split that is being read.
    open: Option<(String, WordCounter<fs::File>)>,
}

impl Source for Read {
    fn poll(&mut self, context: &mut dyn TaskContext, out: &mut dyn Collector) -> Result<SourceStatus, TaskError> {
        self.gate.pass(context)?;
        let could_not_read = |label: &str, error: std::io::Error| {
            TaskError::from_error(&error).context(format!("could not read {label}"))
        };
        let Some((label, counter)) = &mut self.open else {
            let Some(Split { label, payload, .. }) = context.next_split()? else {
                for (word, count) in std::mem::take(&mut self.counts) {
                    out.emit(Record::new(word, count.to_string()))?;
                }
                return Ok(SourceStatus::Finished);
            };
            let path = PathBuf::from(OsString::from_vec(payload));
            let counter = WordCounter::open(&path).map_err(|error| could_not_read(&label, error))?;
            self.open = Some((label, counter));
            return Ok(SourceStatus::More);
        };
        if let Piece::Last(counts) = counter.read_piece().map_err(|error| could_not_read(label, error))? {
            counts.into_iter().for_each(|(word, count)| *self.counts.entry(word).or_default() += count);
            self.open = None;
        }
        Ok(SourceStatus::More)
    }
}

struct Count {
    gate: Gate,
    counts: BTreeMap<bytes::Bytes, u64>,
}

impl Operator for Count {
    fn process(
        &mut self,
        _input: usize,
        record: Record,
        context: &mut dyn TaskContext,
        _out: &mut dyn Collector,
    ) -> Result<(), TaskError> {
        self.gate.pass(context)?;
        let text = String::from_utf8_lossy(&record.value);
        let count: u64 = text.parse().map_err(|_| TaskError::new(format!("`{text}` is not a count")))?;
        *self.counts.entry(record.key).or_default() += count;
        Ok(())
    }

    fn finish(&mut self, context: &mut dyn TaskContext, out: &mut dyn Collector) -> Result<(), TaskError> {
        // A task without input has no other call that can be held.
        self.gate.pass(context)?;
        for (word, count) in std::mem::take(&mut self.counts) {
            out.emit(Record::new(word, count.to_string()))?;
        }
        Ok(())
    }
}

struct Write {
    gate: Gate,
    path: PathBuf,
    lines: BTreeMap<bytes::Bytes, bytes::Bytes>,
}

impl Write {
    fn new(info: &TaskInfo, output: &Path) -> Self {
        let path = output.join(format!("part-{}", info.subtask));
        Self { gate: Gate::of(info), path, lines: BTreeMap::new() }
    }
}

impl Operator for Write {
    fn process(
        &mut self,
        _input: usize,
        record: Record,
        context: &mut dyn TaskContext,
        _out: &mut dyn Collector,
    ) -> Result<(), TaskError> {
        self.gate.pass(context)?;
        self.lines.insert(record.key, record.value);
        Ok(())
    }

    fn finish(&mut self, _context: &mut dyn TaskContext, _out: &mut dyn Collector) -> Result<(), TaskError> {
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder).map_err(|error| {
                TaskError::from_error(&error).context(format!("could not make the output folder {}", folder.display()))
            })?;
        }
        let temporary = self.path.with_extension("tmp");
        let mut file = std::io::BufWriter::new(fs::File::create(&temporary)?);
        for (word, count) in &self.lines {
            file.write_all(word)?;
            file.write_all(b"\t")?;
            file.write_all(count)?;
            file.write_all(b"\n")?;
        }
        file.into_inner().map_err(|error| TaskError::from_error(error.error()))?.sync_all()?;
        fs::rename(&temporary, &self.path)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_folder_is_refused_with_its_name() {
        let params = Params::default().with("input", "no/such/folder").with("output", "out");
        let error = graph(&params).expect_err("refused").to_string();
        assert!(error.contains("no/such/folder"), "{error}");
    }

    /// A task that was asked to stop.
    struct Stopping;

    impl TaskContext for Stopping {
        fn info(&self) -> &TaskInfo {
            panic!("nobody asks for it")
        }
        fn next_split(&mut self) -> Result<Option<Split>, TaskError> {
            Ok(None)
        }
        fn state(&self, _key: &[u8]) -> Option<&[u8]> {
            None
        }
        fn set_state(&mut self, _key: &[u8], _value: Vec<u8>) {}
        fn is_cancelled(&self) -> bool {
            true
        }
    }

    struct Nowhere;

    impl Collector for Nowhere {
        fn emit(&mut self, _record: Record) -> Result<(), TaskError> {
            Ok(())
        }
    }

    #[test]
    fn a_task_without_input_is_held_before_it_finishes() {
        let finish = |file: &str| {
            Count { gate: Gate::at(file.into()), counts: BTreeMap::new() }.finish(&mut Stopping, &mut Nowhere)
        };
        let held = finish("Cargo.toml").expect_err("this file closes the gate").to_string();
        assert!(held.contains("cancelled while held"), "{held}");
        finish("no/such/file").expect("an open gate");
    }
}
