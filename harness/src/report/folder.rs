//! The run folder: a folder a suite with its `timeline.jsonl`; `report.md`, `summary.json` and `junit.xml` beside them.

use std::io;
use std::path::{Path, PathBuf};

use super::summary::Summary;
use super::{RunReport, SuiteReport, junit, markdown};
use crate::timeline::{Timeline, TimelineError};

/// Name of a timeline's file.
pub const TIMELINE: &str = "timeline.jsonl";

/// Most suites of one run that share a folder name.
const MAX_NAMESAKES: u32 = 10_000;

/// A report could not be written or a run folder not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The file system said no.
    #[error("could not {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A timeline cannot be read.
    #[error(transparent)]
    Timeline(#[from] TimelineError),
    /// Nothing to judge.
    #[error("{} is no run folder: neither it nor a folder in it has a {TIMELINE}", .0.display())]
    NoTimeline(PathBuf),
}

impl ReportError {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}

/// The folder of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// Makes the folder unless it is there.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self, ReportError> {
        let path = path.into();
        std::fs::create_dir_all(&path).map_err(ReportError::io("make the folder", &path))?;
        Ok(Self { path })
    }

    /// Makes a folder in `parent` that was not there, named `number` or the next one that is free.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn create_new(parent: &Path, number: u128) -> Result<Self, ReportError> {
        std::fs::create_dir_all(parent).map_err(ReportError::io("make the folder", parent))?;
        let mut number = number;
        loop {
            let path = parent.join(number.to_string());
            match std::fs::create_dir(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                done => return done.map_err(ReportError::io("make the folder", &path)).map(|()| Self { path }),
            }
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a folder for a suite and gives the path of its timeline, which does not exist yet. A suite that is run
    /// again gets a folder of its own.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn suite(&self, name: &str) -> Result<PathBuf, ReportError> {
        let plain = folder_name(name);
        let mut folder = self.path.join(&plain);
        for number in 2..MAX_NAMESAKES {
            match std::fs::create_dir(&folder) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    folder = self.path.join(format!("{plain}-{number}"));
                }
                done => {
                    return done.map(|()| folder.join(TIMELINE)).map_err(ReportError::io("make the folder", &folder));
                }
            }
        }
        Err(ReportError::io("make the folder", &folder)(io::ErrorKind::AlreadyExists.into()))
    }

    /// Writes `report.md`, `summary.json` and `junit.xml`, over older ones.
    ///
    /// # Errors
    /// If one cannot be written.
    pub fn write(&self, run: &RunReport) -> Result<(), ReportError> {
        let files = [
            ("report.md", markdown::render(run)),
            ("summary.json", Summary::of(run).to_json()),
            ("junit.xml", junit::render(run)),
        ];
        for (name, text) in files {
            let path = self.path.join(name);
            std::fs::write(&path, text).map_err(ReportError::io("write", &path))?;
        }
        Ok(())
    }
}

/// Letters, digits, dots, dashes and underscores stay; `::` becomes a dot.
fn folder_name(suite: &str) -> String {
    let plain: String = suite
        .replace("::", ".")
        .chars()
        .map(|character| if character.is_ascii_alphanumeric() || ".-_".contains(character) { character } else { '_' })
        .collect();
    if plain.trim_matches('.').is_empty() { "suite".into() } else { plain }
}

/// Judges a run folder again, or the folder of one suite: from the timelines alone, in the order the suites were run.
///
/// # Errors
/// If there is no timeline, or one cannot be read.
pub fn judge_folder(path: &Path) -> Result<RunReport, ReportError> {
    let mut files = vec![path.join(TIMELINE)];
    let entries = std::fs::read_dir(path).map_err(ReportError::io("read the folder", path))?;
    for entry in entries {
        files.push(entry.map_err(ReportError::io("read the folder", path))?.path().join(TIMELINE));
    }
    files.retain(|file| file.is_file());
    files.sort();
    let mut timelines = vec![];
    for file in &files {
        let timeline = Timeline::read(file)?;
        let began = timeline.records().first().map_or(0, |record| record.wall_ms);
        timelines.push((began, timeline));
    }
    if timelines.is_empty() {
        return Err(ReportError::NoTimeline(path.to_owned()));
    }
    timelines.sort_by_key(|(began, _)| *began);
    let suites = timelines.iter().map(|(_, timeline)| SuiteReport::of(timeline)).collect();
    Ok(RunReport { suites, command: None })
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::verdict::Verdict;

    fn written() -> (tempfile::TempDir, RunFolder) {
        let place = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(place.path().join("run")).unwrap();
        for (name, good) in [("batch::good", true), ("batch::bad", false)] {
            sample::timeline(name, good, "FINISHED").write(&folder.suite(name).unwrap()).unwrap();
        }
        (place, folder)
    }

    #[test]
    fn a_run_judged_again_gives_the_same_verdicts_and_reports() {
        let (_place, folder) = written();
        folder.write(&sample::run()).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        let before = ["summary.json", "report.md", "junit.xml"].map(read);
        let mut again = judge_folder(folder.path()).unwrap();
        assert_eq!(again.verdict(), Verdict::Fail);
        again.suites.reverse();
        folder.write(&again).unwrap();
        assert_eq!(["summary.json", "report.md", "junit.xml"].map(read), before);
    }

    #[test]
    fn two_runs_that_begin_at_the_same_moment_have_folders_of_their_own() {
        let place = tempfile::tempdir().unwrap();
        let parent = place.path().join("reports");
        let folders = [7, 7, 8].map(|now| RunFolder::create_new(&parent, now).unwrap());
        assert_eq!(folders.map(|folder| folder.path), ["7", "8", "9"].map(|name| parent.join(name)));
        assert!(RunFolder::create_new(&parent.join("7/x\0"), 1).is_err());
    }

    #[test]
    fn one_suite_can_be_judged_alone_and_a_cut_timeline_is_invalid() {
        let (_place, folder) = written();
        let suite = folder.path().join("batch.good");
        assert_eq!(judge_folder(&suite).unwrap().verdict(), Verdict::Pass);
        let file = suite.join(TIMELINE);
        let text = std::fs::read(&file).unwrap();
        std::fs::write(&file, &text[..text.len() - 10]).unwrap();
        assert_eq!(judge_folder(&suite).unwrap().verdict(), Verdict::Invalid);
    }

    #[test]
    fn names_cannot_leave_the_folder_and_namesakes_do_not_meet() {
        assert_eq!(folder_name("batch::lost executor/../x"), "batch.lost_executor_.._x");
        assert_eq!((folder_name(".."), folder_name("")), ("suite".into(), "suite".into()));
        let (_place, folder) = written();
        assert!(folder.suite("batch::good").unwrap().ends_with("batch.good-2/timeline.jsonl"));
    }

    #[test]
    fn an_empty_folder_is_an_error() {
        let place = tempfile::tempdir().unwrap();
        let error = judge_folder(place.path()).unwrap_err();
        assert!(matches!(error, ReportError::NoTimeline(_)), "{error}");
    }
}
