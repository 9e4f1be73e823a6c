//! Real parts: programs of others that can stand in for our own. They are only ever run as processes, never linked.
//!
//! `ci/provision` brings them into one folder; they are looked for there, then on `PATH`.

use std::env;
use std::fmt;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Environment variable that names another folder for real parts; they lie in its `bin`.
pub const PARTS_VARIABLE: &str = "STORMPROOF_PARTS";

/// A program of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RealPart {
    /// Shopify's Toxiproxy.
    ToxiproxyServer,
    /// Its command-line client.
    ToxiproxyCli,
    /// MinIO's server.
    Minio,
    /// The Go client of Toxiproxy, with its own tests.
    GoClients,
    /// Python, with clients of Toxiproxy and of S3.
    PythonClients,
    /// Node, with a client of Toxiproxy.
    NodeClients,
    /// Java, with a client of Toxiproxy.
    JavaClients,
    /// Rclone, a client of S3.
    Rclone,
}

/// A real part is not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{part}` is neither in {} nor on PATH; `{}` brings it", folder.display(), part.provision())]
pub struct PartMissing {
    /// Which.
    pub part: RealPart,
    /// Where it would be.
    pub folder: PathBuf,
}

impl fmt::Display for RealPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.program())
    }
}

impl RealPart {
    /// The program's file name.
    #[must_use]
    pub fn program(self) -> &'static str {
        match self {
            Self::ToxiproxyServer => "toxiproxy-server",
            Self::ToxiproxyCli => "toxiproxy-cli",
            Self::Minio => "minio",
            Self::GoClients => "clients-go",
            Self::PythonClients => "clients-python",
            Self::NodeClients => "clients-node",
            Self::JavaClients => "clients-java",
            Self::Rclone => "rclone",
        }
    }

    /// The command that brings it, in this project's folder.
    #[must_use]
    pub fn provision(self) -> &'static str {
        match self {
            Self::ToxiproxyServer | Self::ToxiproxyCli => "ci/provision toxiproxy",
            Self::Minio => "ci/provision minio",
            Self::GoClients | Self::PythonClients | Self::NodeClients | Self::JavaClients | Self::Rclone => {
                "ci/provision clients"
            }
        }
    }

    /// Where it is.
    ///
    /// # Errors
    /// When it is not there; the message says what brings it.
    pub fn find(self) -> Result<PathBuf, PartMissing> {
        let folder = folder();
        let path = env::var_os("PATH").unwrap_or_default();
        let found = find_in(self.program(), std::iter::once(folder.clone()).chain(env::split_paths(&path)));
        found.ok_or(PartMissing { part: self, folder })
    }
}

/// The folder that `ci/provision` fills.
fn folder() -> PathBuf {
    let parts = env::var_os(PARTS_VARIABLE).filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let home = || env::var_os("HOME").map(PathBuf::from).unwrap_or_default().join(".cache").join("stormproof");
    parts.unwrap_or_else(home).join("bin")
}

fn find_in(program: &str, mut folders: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    folders.find_map(|folder| Some(folder.join(program)).filter(|file| is_executable(file)))
}

/// True for a file that this system would try to run.
#[must_use]
pub fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_first_folder_with_an_executable_wins() {
        let root = tempfile::tempdir().expect("folder");
        let folders = ["empty", "folder", "text", "first", "second"].map(|name| root.path().join(name));
        folders.iter().for_each(|folder| fs::create_dir(folder).expect("made"));
        let [_, folder, text, first, second] = &folders;
        fs::create_dir(folder.join("minio")).expect("made");
        for (place, mode) in [(text, 0o644), (first, 0o755), (second, 0o755)] {
            fs::write(place.join("minio"), b"").expect("written");
            fs::set_permissions(place.join("minio"), fs::Permissions::from_mode(mode)).expect("set");
        }
        assert_eq!(find_in("minio", folders.iter().cloned()), Some(first.join("minio")));
        assert_eq!(find_in("toxiproxy-server", folders.iter().cloned()), None);
    }

    #[test]
    fn what_is_missing_names_the_command_that_brings_it() {
        let missing = PartMissing { part: RealPart::Minio, folder: "/parts/bin".into() };
        let expected = "`minio` is neither in /parts/bin nor on PATH; `ci/provision minio` brings it";
        assert_eq!(missing.to_string(), expected);
    }
}
