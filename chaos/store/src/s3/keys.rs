//! The one pair of keys.

use s3s::auth::{S3Auth, SecretKey};
use s3s::{S3Result, s3_error};

/// Knows one access key; any other is answered with 403 `InvalidAccessKeyId`.
pub(crate) struct Keys {
    pub(crate) access_key: String,
    pub(crate) secret_key: SecretKey,
}

#[async_trait::async_trait]
impl S3Auth for Keys {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        if access_key == self.access_key {
            return Ok(self.secret_key.clone());
        }
        Err(s3_error!(InvalidAccessKeyId, "{access_key:?} is not the access key of this server"))
    }
}
