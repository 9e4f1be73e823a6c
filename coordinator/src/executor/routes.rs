//! Where other parties are dialled: where they say that they are, or at an address in front of it.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::time::Instant;

/// How often a file that is not there yet is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The file of routes cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RoutesError {
    /// It cannot be read.
    #[error("cannot read the routes in {}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It did not come.
    #[error("the routes in {} did not come for {waited:?}; without them nobody may be dialled", file.display())]
    Absent {
        /// The file.
        file: PathBuf,
        /// For how long it was looked for.
        waited: Duration,
    },
    /// It cannot be understood.
    #[error("the routes in {} must be one JSON object of names and socket addresses", file.display())]
    Malformed {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
    },
}

/// See the module. Nobody may be dialled before [`Self::known`].
#[derive(Debug, Default)]
pub(crate) struct Routes {
    file: Option<PathBuf>,
    by_name: OnceLock<BTreeMap<String, SocketAddr>>,
}

impl Routes {
    /// The routes in `file`; everybody is dialled directly if there is to be none.
    pub(crate) fn of(file: Option<PathBuf>) -> Self {
        Self { file, by_name: OnceLock::new() }
    }

    /// Resolves once the routes are known: at once if there are none, else when the file is there.
    ///
    /// # Errors
    /// When it does not come within `limit`, or cannot be used.
    pub(crate) async fn known(&self, limit: Duration) -> Result<(), RoutesError> {
        let Some(file) = &self.file else { return Ok(()) };
        let end = Instant::now() + limit;
        let text = loop {
            match std::fs::read(file) {
                Ok(text) => break text,
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(RoutesError::Read { file: file.clone(), source: error });
                }
                Err(_) if Instant::now() >= end => {
                    return Err(RoutesError::Absent { file: file.clone(), waited: limit });
                }
                Err(_) => tokio::time::sleep(LOOK_EVERY).await,
            }
        };
        let by_name = serde_json::from_slice(&text);
        let by_name = by_name.map_err(|source| RoutesError::Malformed { file: file.clone(), source })?;
        self.by_name.get_or_init(|| by_name);
        Ok(())
    }

    /// Where to dial the party called `name`, which says that it is at `address`.
    pub(crate) fn to(&self, name: &str, address: &str) -> String {
        let route = self.by_name.get().and_then(|by_name| by_name.get(name));
        route.map_or_else(|| address.to_owned(), SocketAddr::to_string)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn without_a_file_everybody_is_dialled_directly() {
        let routes = Routes::of(None);
        routes.known(Duration::ZERO).await.expect("nothing to wait for");
        assert_eq!(routes.to("executor-2", "127.0.0.1:7"), "127.0.0.1:7");
    }

    #[tokio::test]
    async fn who_is_in_the_file_is_dialled_there_once_it_has_come() {
        let folder = tempfile::tempdir().expect("folder");
        let file = folder.path().join("routes");
        let routes = Routes::of(Some(file.clone()));
        let absent = routes.known(Duration::ZERO).await.expect_err("it is not there").to_string();
        assert!(absent.contains("did not come"), "{absent}");
        let written = folder.path().join("written");
        fs::write(&written, br#"{"executor-2": "127.0.0.1:4002"}"#).expect("written");
        let (known, ()) = tokio::join!(routes.known(LIMIT), async { fs::rename(&written, &file).expect("renamed") });
        known.expect("read");
        assert_eq!(routes.to("executor-2", "127.0.0.1:7"), "127.0.0.1:4002");
        assert_eq!(routes.to("executor-3", "127.0.0.1:8"), "127.0.0.1:8");
    }

    #[tokio::test]
    async fn what_cannot_be_understood_is_an_error_that_names_the_file() {
        let folder = tempfile::tempdir().expect("folder");
        for text in ["", "[]", r#"{"executor-2": 7}"#, r#"{"executor-2": "somewhere"}"#] {
            let file = folder.path().join("routes");
            fs::write(&file, text).expect("written");
            let error = Routes::of(Some(file.clone())).known(LIMIT).await.expect_err(text).to_string();
            assert!(error.contains(&file.display().to_string()) && error.contains("JSON object"), "{error}");
        }
    }
}
