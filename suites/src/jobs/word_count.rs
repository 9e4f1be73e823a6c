//! A batch word count over real files: `read` (splits handed out by the coordinator) → hash, blocking → `count` →
//! forward, blocking → `write` (sorted, one file a subtask, renamed into place).
//!
//! Parameters: `input` (folder of text), `output` (folder, made), `parallelism` (default 3), `faults` (see
//! [`Gate`]).

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stormproof::job::{
    Collector, JobGraph, JobGraphError, JobKind, Operator, Params, Record, ResultPartitionType, ShipStrategy, Source,
    SourceStatus, Split, TaskContext, TaskError, TaskInfo,
};

use super::gate::Gate;

/// Registered name.
pub const NAME: &str = "word-count";

/// Folders that are never input: build output, and what `stormproof` itself writes while it runs.
const SKIPPED: [&str; 3] = ["target", "stormproof-report", "stormproof-up"];

/// A folder that holds this file is the record of a run, which grows while a job reads: never input either.
const RECORD: &str = "timeline.jsonl";

/// Largest file that is taken, bytes.
const MAX_FILE_BYTES: u64 = 256 << 10;

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
        Ok(Box::new(Read { gate: Gate::of(info), counts: BTreeMap::new() }))
    });
    let count = job
        .operator("count", parallelism, |info| Ok(Box::new(Count { gate: Gate::of(info), counts: BTreeMap::new() })));
    let write = job.operator("write", parallelism, move |info| Ok(Box::new(Write::new(info, &output))));
    job.connect(read, count, ShipStrategy::Hash, ResultPartitionType::Blocking);
    job.connect(count, write, ShipStrategy::Forward, ResultPartitionType::Blocking);
    job.build()
}

/// The text files below `folder`, in order; anything that is not UTF-8 or is too large is left out.
///
/// # Errors
/// When a folder cannot be read.
pub fn text_files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = vec![];
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        if folder.join(RECORD).exists() {
            continue;
        }
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let (name, kind) = (entry.file_name(), entry.file_type()?);
            let hidden = name.to_string_lossy().starts_with('.');
            if kind.is_dir() && !hidden && !SKIPPED.iter().any(|skipped| name == *skipped) {
                open.push(entry.path());
            } else if kind.is_file() && !hidden && entry.metadata()?.len() <= MAX_FILE_BYTES {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

/// The words of a text: runs of letters and digits, in lower case.
pub fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase)
}

/// Adds the words of a text to the counts.
pub fn add_words(counts: &mut BTreeMap<String, u64>, text: &str) {
    words(text).for_each(|word| *counts.entry(word).or_default() += 1);
}

fn splits(input: &Path) -> Result<Vec<Split>, TaskError> {
    let files = text_files(input)
        .map_err(|error| TaskError::from_error(&error).context(format!("could not list {}", input.display())))?;
    let split = |(index, path): (usize, PathBuf)| Split {
        index: u32::try_from(index).unwrap_or(u32::MAX),
        label: path.display().to_string(),
        payload: path.into_os_string().into_encoded_bytes(),
    };
    Ok(files.into_iter().enumerate().map(split).collect())
}

/// Reads its splits and counts their words, so that a word travels once a task and not once an occurrence.
struct Read {
    gate: Gate,
    counts: BTreeMap<String, u64>,
}

impl Source for Read {
    fn poll(&mut self, context: &mut dyn TaskContext, out: &mut dyn Collector) -> Result<SourceStatus, TaskError> {
        self.gate.pass(context)?;
        let Some(split) = context.next_split()? else {
            for (word, count) in std::mem::take(&mut self.counts) {
                out.emit(Record::new(word, count.to_string()))?;
            }
            return Ok(SourceStatus::Finished);
        };
        let bytes = fs::read(&split.label)
            .map_err(|error| TaskError::from_error(&error).context(format!("could not read {}", split.label)))?;
        // What is not text has no words.
        if let Ok(text) = String::from_utf8(bytes) {
            add_words(&mut self.counts, &text);
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
    fn words_are_runs_of_letters_and_digits() {
        let found: Vec<String> = words("Hello, wörld! x86_64\n").collect();
        assert_eq!(found, ["hello", "wörld", "x86", "64"]);
    }

    #[test]
    fn build_output_hidden_files_and_records_of_runs_are_no_input() {
        let folder = std::env::temp_dir().join(format!("stormproof-text-files-{}", std::process::id()));
        for file in ["a.txt", "sub/b.txt", "target/c.txt", ".git/d", ".hidden", "report/e.log", "stormproof-up/f.log"] {
            let path = folder.join(file);
            fs::create_dir_all(path.parent().expect("it has one")).expect("made");
            fs::write(path, "word").expect("written");
        }
        fs::write(folder.join("report").join(RECORD), "").expect("written");
        let found = text_files(&folder).expect("listed");
        fs::remove_dir_all(&folder).expect("removed");
        assert_eq!(found, [folder.join("a.txt"), folder.join("sub/b.txt")]);
    }

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
