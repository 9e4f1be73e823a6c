//! The words of files of text, however large the files are.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Folders that are never input: build output, and what `stormproof` itself writes while it runs.
const SKIPPED: [&str; 3] = ["target", "stormproof-report", "stormproof-up"];

/// A folder that holds this file is the record of a run, which grows while a job reads: never input either.
const RECORD: &str = "timeline.jsonl";

/// Bytes that are read at once.
const PIECE_BYTES: u64 = 256 << 10;

/// The files below `folder` that are not hidden, in order.
///
/// # Errors
/// When a folder cannot be read.
pub fn text_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
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
            } else if kind.is_file() && !hidden {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

/// The words of a text: runs of letters and digits, in lower case.
fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase)
}

/// Counts the words of one text, piece by piece.
#[derive(Debug)]
pub struct WordCounter<R> {
    reader: R,
    piece_bytes: u64,
    counts: BTreeMap<String, u64>,
    /// What has been read and not counted: the beginning of a word, or of a letter.
    rest: Vec<u8>,
}

/// What reading a piece came to.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    /// There may be more.
    More,
    /// That was the last; the words of the whole text. What is not UTF-8 has none.
    Last(BTreeMap<String, u64>),
}

impl WordCounter<File> {
    /// Begins to count the words of a file.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        File::open(path).map(|file| Self::of(file, PIECE_BYTES))
    }
}

impl<R: Read> WordCounter<R> {
    fn of(reader: R, piece_bytes: u64) -> Self {
        Self { reader, piece_bytes, counts: BTreeMap::new(), rest: vec![] }
    }

    /// Reads and counts the next piece.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read_piece(&mut self) -> io::Result<Piece> {
        let is_last = self.reader.by_ref().take(self.piece_bytes).read_to_end(&mut self.rest)? == 0;
        let text = match std::str::from_utf8(&self.rest) {
            Ok(text) => text,
            Err(error) if error.error_len().is_some() || is_last => return Ok(Piece::Last(BTreeMap::new())),
            // A letter of which the end is still to be read.
            Err(error) => std::str::from_utf8(&self.rest[..error.valid_up_to()]).unwrap_or_default(),
        };
        let whole = if is_last { text } else { text.trim_end_matches(char::is_alphanumeric) };
        words(whole).for_each(|word| *self.counts.entry(word).or_default() += 1);
        let counted = whole.len();
        self.rest.drain(..counted);
        Ok(if is_last { Piece::Last(std::mem::take(&mut self.counts)) } else { Piece::More })
    }

    /// Counts all that is left.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn count(mut self) -> io::Result<BTreeMap<String, u64>> {
        loop {
            if let Piece::Last(counts) = self.read_piece()? {
                return Ok(counts);
            }
        }
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
    fn wherever_a_text_is_cut_its_words_are_whole() {
        let text = "Wörter, größere – and ones\u{a0}with 𝒜, İstanbul; a a a. Größere";
        let mut whole = BTreeMap::new();
        words(text).for_each(|word| *whole.entry(word).or_default() += 1);
        assert_eq!((whole["a"], whole["größere"]), (3, 2));
        for piece_bytes in 1..=text.len() as u64 + 1 {
            let counts = WordCounter::of(text.as_bytes(), piece_bytes).count().expect("read");
            assert_eq!(counts, whole, "pieces of {piece_bytes} bytes");
        }
    }

    #[test]
    fn what_is_not_text_has_no_words() {
        for bytes in [&b"some words \xff and more"[..], b"cut in a letter: \xc3", b"\x80"] {
            for piece_bytes in 1..=bytes.len() as u64 {
                let counts = WordCounter::of(bytes, piece_bytes).count().expect("read");
                assert_eq!(counts, BTreeMap::new(), "{bytes:?} in pieces of {piece_bytes} bytes");
            }
        }
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
}
