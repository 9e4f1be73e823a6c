//! `stormproof explain`.

use std::fs;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use stormproof::explain::{ExplainError, Picture, Question, Saved, answer_cases, look};
use stormproof::verdict::EXIT_USAGE;

use super::jobs::TargetArgument;
use super::output::note;
use super::{CommandError, runtime};

/// Arguments of `stormproof explain`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stormproof explain                                      how far any one failure reaches, vertex by vertex
  stormproof explain --fail count/1 --lost read.0/2       count/1 fails, and the output of read/2 is gone
  stormproof explain --executor executor-2 --json         an executor is lost
  stormproof explain --job-file job.json --vertex-file v0.json --vertex-file v1.json --fail 'map[3]'
  stormproof explain --cases cases.jsonl                  one case a line in, one answer a line out")]
pub(super) struct ExplainArguments {
    #[command(flatten)]
    target: TargetArgument,
    /// The job; may be left out if only one runs
    #[arg(long, value_name = "ID")]
    job: Option<String>,
    /// Saved answer of `GET /jobs/:id`, instead of asking a cluster
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "job", "cases"])]
    job_file: Option<PathBuf>,
    /// Saved answer of `GET /jobs/:id/vertices/:vid`; one for each vertex
    #[arg(long, value_name = "FILE", requires = "job_file", num_args = 1..)]
    vertex_file: Vec<PathBuf>,
    /// JSON Lines of cases, `-` for standard input; answered as Flink 2.3 does
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "job", "fail", "executor", "lost", "named", "regions", "stale_honoured", "keep_partitions"])]
    cases: Option<PathBuf>,
    /// A task that fails: `vertex/subtask` or `vertex[subtask]`, the vertex by name or identifier
    #[arg(long, value_name = "TASK")]
    fail: Vec<String>,
    /// An executor that is lost, with the tasks it runs and the partitions it holds
    #[arg(long, value_name = "NAME")]
    executor: Vec<String>,
    /// A lost partition: `vertex.dataset/subtask`
    #[arg(long, value_name = "PARTITION")]
    lost: Vec<String>,
    /// The partition that the failure names (a PartitionException); `PARTITION@ATTEMPT` for an attempt of its producer
    #[arg(long, value_name = "PARTITION", requires = "fail")]
    named: Option<String>,
    /// Count a named partition of an old attempt as lost, as Flink does
    #[arg(long)]
    stale_honoured: bool,
    /// Partitions are kept after all that reads them has finished
    #[arg(long)]
    keep_partitions: bool,
    /// Print the pipelined regions as well
    #[arg(long)]
    regions: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Explains.
pub(super) fn explain(arguments: &ExplainArguments) -> Result<u8, CommandError> {
    if let Some(file) = &arguments.cases {
        return cases(file);
    }
    let picture = picture(arguments)?;
    let question = Question {
        fail: arguments.fail.clone(),
        executors: arguments.executor.clone(),
        lost: arguments.lost.clone(),
        named: arguments.named.clone(),
        stale_honoured: arguments.stale_honoured,
        partitions_are_kept: arguments.keep_partitions,
    };
    let text = answer(arguments, &picture, &question).map_err(|error| CommandError::bad_input(&error))?;
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(CommandError::internal(&error)),
        // Whoever reads has seen enough.
        _ => Ok(0),
    }
}

fn answer(arguments: &ExplainArguments, picture: &Picture, question: &Question) -> Result<String, ExplainError> {
    let (mut json, lines) = if question.is_empty() {
        let summary = picture.summary(question.partitions_are_kept)?;
        (picture.summary_json(&summary), summary.lines())
    } else {
        let explanation = picture.explain(question)?;
        (picture.explanation_json(&explanation), picture.lines(&explanation))
    };
    if arguments.json {
        if arguments.regions {
            json["regions"] = picture.regions_json();
        }
        return Ok(format!("{json}\n"));
    }
    let mut all = vec![picture.headline()];
    if arguments.regions {
        all.extend(picture.region_lines());
    }
    all.extend(lines);
    Ok(all.join("\n") + "\n")
}

fn picture(arguments: &ExplainArguments) -> Result<Picture, CommandError> {
    let Some(file) = &arguments.job_file else {
        let client = arguments.target.client()?;
        return runtime()?.block_on(look(&client, arguments.job.as_deref())).map_err(|error| match error {
            ExplainError::Rest(error) => arguments.target.failed(&error),
            error => CommandError::bad_input(&error),
        });
    };
    let job = saved(file)?;
    let details = arguments.vertex_file.iter().map(|file| saved(file)).collect::<Result<Vec<_>, _>>()?;
    Picture::of_rest(&job, &details).map_err(|error| CommandError::bad_input(&error))
}

fn saved(file: &Path) -> Result<Saved, CommandError> {
    let text = fs::read_to_string(file).map_err(|error| unreadable(file, &error))?;
    Saved::parse(file.display().to_string(), &text).map_err(|error| CommandError::bad_input(&error))
}

fn unreadable(file: &Path, error: &io::Error) -> CommandError {
    CommandError::usage(format!("cannot read {}: {error}", file.display()))
}

/// Answers cases; exit code 2 if any line was none.
fn cases(file: &Path) -> Result<u8, CommandError> {
    let source: Box<dyn Read> = if file == Path::new("-") {
        Box::new(io::stdin())
    } else {
        Box::new(fs::File::open(file).map_err(|error| unreadable(file, &error))?)
    };
    let mut answers = io::BufWriter::new(io::stdout().lock());
    let outcome = answer_cases(&mut BufReader::new(source), &mut answers, |line, error| {
        note(format_args!("stormproof: {}, line {line}: {error}", file.display()));
    });
    match outcome {
        Ok(outcome) if outcome.refused > 0 => Ok(EXIT_USAGE),
        Ok(_) => Ok(0),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(0),
        Err(error) => Err(CommandError::usage(format!("cannot answer {}: {error}", file.display()))),
    }
}
