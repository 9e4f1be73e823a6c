//! Result partitions that are kept on disk until the scheduler releases them, and can be read again.
//!
//! A partition is a folder with a file for each subpartition. A file is written under a temporary name and gets its
//! own once it is complete; it is a sequence of frames `length (4) | CRC-32 (4) | body`, of which the last is
//! `EndOfPartition`. Whatever is missing, cut off or damaged is therefore found, and the consumer's failure names the
//! partition: its producer runs again.
//!
//! The hybrid types are kept here too: they may be *requested* while they are produced, and are served from the
//! moment they are complete. That is what their contract allows, without the speed that they exist for.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::sync::watch;

use super::BATCH_BYTES;
use super::wire::{Batch, Frame};
use crate::graph::Record;
use crate::runtime::protocol::MAX_FRAME_BYTES;

/// Frames are handed to the socket in chunks of about this size, bytes.
const CHUNK_BYTES: usize = 64 * 1024;

/// Where a partition is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileState {
    Writing,
    Complete,
    /// The producer failed or was cancelled.
    Failed,
    /// Deleted, or about to be.
    Released,
}

/// A partition on disk.
#[derive(Debug)]
pub(crate) struct FilePartition {
    folder: PathBuf,
    subpartitions: u32,
    state: watch::Sender<FileState>,
}

impl FilePartition {
    pub(crate) fn new(folder: PathBuf, subpartitions: u32) -> Self {
        Self { folder, subpartitions, state: watch::Sender::new(FileState::Writing) }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn state(&self) -> FileState {
        *self.state.borrow()
    }

    /// Leaves `Writing`, or becomes `Released` from anywhere but `Failed`: consumers shall hear of the failure.
    pub(crate) fn become_state(&self, next: FileState) {
        self.state.send_if_modified(|state| {
            let changed = match *state {
                FileState::Writing => true,
                FileState::Complete => next == FileState::Released,
                FileState::Failed | FileState::Released => false,
            };
            if changed {
                *state = next;
            }
            changed
        });
    }

    /// Resolves once nobody writes any more.
    pub(crate) async fn written(&self) -> FileState {
        let mut watch = self.state.subscribe();
        let state = watch.wait_for(|state| *state != FileState::Writing).await;
        // The sender lives in `self`.
        state.map_or(FileState::Released, |state| *state)
    }

    fn file(&self, subpartition: u32) -> PathBuf {
        self.folder.join(subpartition.to_string())
    }
}

/// Writes a partition. One that is dropped before [`FileWriter::finish`] leaves no complete file behind.
pub(crate) struct FileWriter {
    partition: Arc<FilePartition>,
    files: Vec<OpenFile>,
}

struct OpenFile {
    /// Made with the first frame: there may be thousands of empty subpartitions.
    file: Option<File>,
    batch: Batch,
}

impl FileWriter {
    /// Makes the folder.
    pub(crate) fn create(partition: Arc<FilePartition>) -> io::Result<Self> {
        std::fs::create_dir_all(&partition.folder)?;
        let files = (0..partition.subpartitions).map(|_| OpenFile { file: None, batch: Batch::default() }).collect();
        Ok(Self { partition, files })
    }

    pub(crate) fn add(&mut self, subpartition: usize, record: &Record) -> io::Result<()> {
        let batch = &mut self.files[subpartition].batch;
        batch.push(record);
        if batch.len() < BATCH_BYTES {
            return Ok(());
        }
        let body = batch.take();
        self.unless_released(|this| this.write(subpartition, &body))
    }

    /// Completes every file.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.unless_released(|this| {
            for index in 0..this.files.len() {
                let body = this.files[index].batch.take();
                if !body.is_empty() {
                    this.write(index, &body)?;
                }
                this.write(index, &Frame::EndOfPartition.encode())?;
                // Closed before it gets its name.
                this.files[index].file = None;
                let path = this.partition.file(index as u32);
                std::fs::rename(path.with_extension("tmp"), path)?;
            }
            Ok(())
        })?;
        self.partition.become_state(FileState::Complete);
        Ok(())
    }

    /// A release while the task runs deletes the folder under it: nothing to complain about.
    fn unless_released(&mut self, work: impl FnOnce(&mut Self) -> io::Result<()>) -> io::Result<()> {
        if self.partition.state() == FileState::Released {
            return Ok(());
        }
        match work(self) {
            Err(_) if self.partition.state() == FileState::Released => Ok(()),
            result => result,
        }
    }

    fn write(&mut self, index: usize, body: &[u8]) -> io::Result<()> {
        let open = &mut self.files[index];
        let file = match &mut open.file {
            Some(file) => file,
            None => {
                let path = self.partition.file(index as u32).with_extension("tmp");
                open.file.insert(File::create(path)?)
            }
        };
        let mut header = [0; 8];
        header[..4].copy_from_slice(&(body.len() as u32).to_be_bytes());
        header[4..].copy_from_slice(&crc32fast::hash(body).to_be_bytes());
        file.write_all(&header)?;
        file.write_all(body)
    }
}

impl Drop for FileWriter {
    fn drop(&mut self) {
        if self.partition.state() == FileState::Released {
            // A file made after the folder was deleted would be left behind.
            self.files.clear();
            let _ = std::fs::remove_dir_all(&self.partition.folder);
        }
    }
}

/// A file is missing, ends too early, or its bytes are not what was written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DamagedFile {
    #[error("cannot read a subpartition's file")]
    Io(#[from] io::Error),
    #[error("a frame's checksum is wrong")]
    Checksum,
    #[error("what is there is no file")]
    Alien,
}

impl DamagedFile {
    /// There is no file at all.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

/// Reads one subpartition. All calls block.
pub(crate) struct FileReader {
    file: BufReader<File>,
}

impl FileReader {
    pub(crate) fn open(partition: &FilePartition, subpartition: u32) -> Result<Self, DamagedFile> {
        let path = partition.file(subpartition);
        // Whatever else is there in its place might never be opened, or never end.
        if !std::fs::metadata(&path)?.is_file() {
            return Err(DamagedFile::Alien);
        }
        Ok(Self { file: BufReader::with_capacity(16 * 1024, File::open(path)?) })
    }

    /// The next frames: at least one, and nothing after `EndOfPartition`.
    pub(crate) fn chunk(&mut self) -> Result<Vec<Bytes>, DamagedFile> {
        let mut frames = vec![];
        let mut total = 0;
        while total < CHUNK_BYTES {
            let frame = self.frame()?;
            total += frame.len();
            let last = Frame::is_end_of_partition(&frame);
            frames.push(frame);
            if last {
                break;
            }
        }
        Ok(frames)
    }

    fn frame(&mut self) -> Result<Bytes, DamagedFile> {
        let mut header = [[0; 4]; 2];
        self.file.read_exact(header.as_flattened_mut())?;
        let [size, checksum] = header.map(u32::from_be_bytes);
        // No frame is empty: an endless file of zeros would be an endless chunk of them.
        if size == 0 || size as usize > MAX_FRAME_BYTES {
            return Err(DamagedFile::Checksum);
        }
        let mut body = BytesMut::zeroed(size as usize);
        self.file.read_exact(&mut body)?;
        if crc32fast::hash(&body) != checksum {
            return Err(DamagedFile::Checksum);
        }
        Ok(body.freeze())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::exchange::wire::Records;

    fn written(folder: &Path, records: usize) -> Arc<FilePartition> {
        let partition = Arc::new(FilePartition::new(folder.join("p"), 2));
        let mut writer = FileWriter::create(partition.clone()).unwrap();
        for index in 0..records {
            writer.add(index % 2, &Record::new(index.to_string(), vec![1; 100])).unwrap();
        }
        assert!(FileReader::open(&partition, 0).is_err(), "incomplete files have no name yet");
        writer.finish().unwrap();
        partition
    }

    fn read(partition: &FilePartition, subpartition: u32) -> Result<usize, DamagedFile> {
        let mut reader = FileReader::open(partition, subpartition)?;
        let mut records = 0;
        loop {
            for frame in reader.chunk()? {
                match Frame::decode(frame).unwrap() {
                    Frame::Records(body) => records += Records(body).map(Result::unwrap).count(),
                    Frame::EndOfPartition => return Ok(records),
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    #[test]
    fn files_can_be_read_again_and_again() {
        let folder = tempfile::tempdir().unwrap();
        let partition = written(folder.path(), 5001);
        assert_eq!(partition.state(), FileState::Complete);
        for _ in 0..2 {
            assert_eq!((read(&partition, 0).unwrap(), read(&partition, 1).unwrap()), (2501, 2500));
        }
        assert!(read(&partition, 2).is_err());
        let empty = written(&folder.path().join("other"), 0);
        assert_eq!(read(&empty, 1).unwrap(), 0);
    }

    #[test]
    fn every_cut_and_every_flipped_byte_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let partition = written(folder.path(), 3);
        let path = partition.file(0);
        let good = std::fs::read(&path).unwrap();
        for size in 0..good.len() {
            std::fs::write(&path, &good[..size]).unwrap();
            assert!(read(&partition, 0).is_err(), "cut to {size} bytes");
        }
        for position in 0..good.len() {
            let mut bad = good.clone();
            bad[position] ^= 0x10;
            std::fs::write(&path, &bad).unwrap();
            assert!(read(&partition, 0).is_err(), "byte {position} flipped");
        }
        std::fs::write(&path, [0; 800]).unwrap();
        assert!(read(&partition, 0).is_err(), "only zeros");
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert!(read(&partition, 0).is_err(), "it has no end");
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, &good).unwrap();
        assert_eq!(read(&partition, 0).unwrap(), 2);
    }

    #[test]
    fn a_release_under_the_writer_is_no_error_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let partition = Arc::new(FilePartition::new(folder.path().join("p"), 2));
        let mut writer = FileWriter::create(partition.clone()).unwrap();
        writer.add(0, &Record::new("k", vec![0; BATCH_BYTES])).unwrap();
        partition.become_state(FileState::Released);
        std::fs::remove_dir_all(partition.folder()).unwrap();
        writer.add(1, &Record::new("k", vec![0; BATCH_BYTES])).unwrap();
        writer.finish().unwrap();
        drop(writer);
        assert_eq!(partition.state(), FileState::Released);
        assert!(!partition.folder().exists());
    }
}
