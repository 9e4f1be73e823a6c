//! A real MinIO as the checkpoint store.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use stormproof_chaos::process::ProcessId;
use stormproof_coordinator::config::StoreConfig;
use stormproof_coordinator::storage::{BlobStore as _, Deadlines, S3BlobStore};
use tokio::time::{Instant, sleep};

use super::{BUCKET, make_dir};
use crate::guard::Guard;
use crate::role::{Child, Launcher, PartConfig, Role};
use crate::target::{Leftovers, TargetError};

/// Free bytes that a folder needs for a store.
const ROOMY_BYTES: u64 = 1 << 30;

/// How long it may take until it answers a signed request; it takes under a second on an idle machine.
const READY_DEADLINE: Duration = Duration::from_secs(60);

/// How long one question whether it is ready may take.
const ASK_FOR: Duration = Duration::from_secs(2);

/// Pause between two looks whether it is ready.
const ASK_AGAIN: Duration = Duration::from_millis(10);

/// A running MinIO with one bucket.
pub(super) struct Minio {
    child: Child,
    config: StoreConfig,
    blobs: S3BlobStore,
    data: PathBuf,
}

impl Minio {
    /// Starts `program` with its data in a folder of the run and random keys, and waits until it answers.
    pub(super) async fn start(
        program: &Path,
        launcher: &Launcher,
        guard: &Guard,
        log: &Path,
    ) -> Result<Self, TargetError> {
        // It syncs every object. In memory that takes no time, and it survives all that is done to the cluster.
        let quick = guard.quick_dir();
        let data = if is_roomy(quick) { quick } else { guard.work_dir() }.join("minio");
        // A folder that is there at the start is a bucket.
        make_dir(&data.join(BUCKET))?;
        let keys = random_keys().map_err(|source| TargetError::File {
            action: "read",
            path: "/dev/urandom".into(),
            source,
        })?;
        let part = part_config(program, &data, &guard.work_dir().join("minio-certs"), &keys);
        let child = launcher.launch(Role::Part, "minio", &part, log).await?;
        match Self::ready(&child, &keys, log).await {
            Ok((config, blobs)) => Ok(Self { child, config, blobs, data }),
            Err(error) => {
                child.kill();
                Err(error)
            }
        }
    }

    /// Waits until a signed request is answered: it listens before it can serve.
    async fn ready(
        child: &Child,
        keys: &(String, String),
        log: &Path,
    ) -> Result<(StoreConfig, S3BlobStore), TargetError> {
        let end = Instant::now() + READY_DEADLINE;
        loop {
            for address in child.process.listens_on() {
                let config = StoreConfig {
                    endpoint: format!("http://{address}"),
                    bucket: BUCKET.to_owned(),
                    access_key: keys.0.clone(),
                    secret_key: keys.1.clone(),
                };
                if S3BlobStore::new(&config, Deadlines::within(ASK_FOR))?.list("").await.is_ok() {
                    let blobs = S3BlobStore::new(&config, Deadlines::default())?;
                    return Ok((config, blobs));
                }
            }
            if !child.process.is_alive() {
                return Err(TargetError::part_ended("MinIO", log));
            }
            if Instant::now() > end {
                return Err(TargetError::Deadline {
                    what: "an answer of MinIO".to_owned(),
                    seconds: READY_DEADLINE.as_secs(),
                    logs: log.to_owned(),
                });
            }
            sleep(ASK_AGAIN).await;
        }
    }

    /// How it is reached, past any proxy.
    pub(super) fn config(&self) -> &StoreConfig {
        &self.config
    }

    /// Its process.
    pub(super) fn process(&self) -> ProcessId {
        self.child.process
    }

    /// What job `id` left here.
    pub(super) async fn leftovers(&self, id: &str, leftovers: &mut Leftovers) -> Result<(), TargetError> {
        leftovers.objects = self.blobs.list(id).await?.into_iter().map(|object| object.key).collect();
        leftovers.uploads = open_uploads(&self.data)?;
        Ok(())
    }

    /// Ends it. Its data is removed with the work folder, so there is nothing to be saved.
    pub(super) fn stop(self) {
        self.child.kill();
    }
}

/// Whether a store may be put there; folders in memory can be tiny in containers.
fn is_roomy(folder: &Path) -> bool {
    rustix::fs::statvfs(folder).is_ok_and(|space| space.f_bavail.saturating_mul(space.f_frsize) >= ROOMY_BYTES)
}

fn part_config(program: &Path, data: &Path, certs: &Path, keys: &(String, String)) -> PartConfig {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let (data, certs) = (text(data), text(certs));
    // `--anonymous` keeps keys and addresses out of its log; its console is off, and it asks nobody for updates.
    let arguments = ["server", &data, "--address", "127.0.0.1:0", "--certs-dir", &certs, "--anonymous"];
    let environment = [
        ("MINIO_ROOT_USER", keys.0.as_str()),
        ("MINIO_ROOT_PASSWORD", keys.1.as_str()),
        ("MINIO_BROWSER", "off"),
        ("MINIO_UPDATE", "off"),
    ];
    PartConfig {
        program: program.to_owned(),
        arguments: arguments.map(str::to_owned).to_vec(),
        environment: BTreeMap::from(environment.map(|(name, value)| (name.to_owned(), value.to_owned()))),
        own_prefix: Some("MINIO_".to_owned()),
    }
}

/// An access key and a secret key that nobody can guess.
fn random_keys() -> io::Result<(String, String)> {
    let mut bytes = [0; 28];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let (access, secret) = bytes.split_at(8);
    Ok((hex::encode(access), hex::encode(secret)))
}

/// Multipart uploads that were neither completed nor aborted. MinIO lists what it remembers or what has exactly the
/// key one asks for, so they are looked for where they lie: a folder for each upload in a folder for each key.
fn open_uploads(data: &Path) -> Result<Vec<String>, TargetError> {
    let root = data.join(".minio.sys").join("multipart");
    let mut found = vec![];
    for key in subfolders(&root)? {
        found.extend(
            subfolders(&key)?.iter().filter_map(|upload| Some(upload.strip_prefix(&root).ok()?.display().to_string())),
        );
    }
    found.sort_unstable();
    Ok(found)
}

fn subfolders(folder: &Path) -> Result<Vec<PathBuf>, TargetError> {
    match fs::read_dir(folder) {
        Ok(entries) => Ok(entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect()),
        // Nothing was uploaded in parts yet, or the key's last upload has just ended.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(vec![]),
        Err(source) => Err(TargetError::File { action: "list", path: folder.to_owned(), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uploads_are_found_where_minio_keeps_them() {
        let data = tempfile::tempdir().expect("a folder");
        assert_eq!(open_uploads(data.path()).expect("nothing yet"), Vec::<String>::new());
        // As MinIO leaves it: two uploads of one key, and a key without uploads.
        let multipart = data.path().join(".minio.sys/multipart");
        for folder in ["97f9/58a5x17", "97f9/9ae6x18", "67f4"] {
            make_dir(&multipart.join(folder)).expect("made");
        }
        fs::write(multipart.join("97f9/58a5x17/xl.meta"), b"").expect("written");
        assert_eq!(open_uploads(data.path()).expect("listed"), ["97f9/58a5x17", "97f9/9ae6x18"]);
    }

    #[test]
    fn keys_are_long_and_never_the_same() {
        let (first, second) = (random_keys().expect("drawn"), random_keys().expect("drawn"));
        assert_eq!((first.0.len(), first.1.len()), (16, 40));
        assert!(first.0 != second.0 && first.1 != second.1);
    }
}
