//! The API key: from the environment, the configuration, or a file of its own that the first start makes.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use sha2::{Digest, Sha256};

use super::datadir::{DataDir, read_own};
use super::lock::Lock;
use super::{exit, exit_code_of};

/// The environment variable that holds the key.
pub const VARIABLE: &str = "MCPPROXY_API_KEY";
const NAME: &str = "api_key";
/// Header lines are read up to a bound, so a key has one too.
const MAX_BYTES: u64 = 4096;
const RANDOM_BYTES: usize = 32;

/// A key that opens everything. It prints itself as `ApiKey(..)`.
#[derive(Clone)]
pub struct ApiKey {
    text: String,
    digest: [u8; 32],
    origin: Origin,
}

/// Where a key comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// `MCPPROXY_API_KEY`.
    Environment,
    /// `api_key` of the configuration file.
    Config,
    /// This file in the data directory.
    File(PathBuf),
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum ApiKeyError {
    /// It cannot be sent in a header.
    #[error(
        "the API key of {origin} cannot be sent in an HTTP header: use up to {MAX_BYTES} visible ASCII characters, for \
         example the output of `openssl rand -hex 32`"
    )]
    Unsendable {
        /// Where it comes from.
        origin: Origin,
    },
    /// The file holds nothing.
    #[error("{} is empty: delete it, and the next start makes a new key", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// No random bytes.
    #[error("the operating system gives no random bytes for an API key: set {VARIABLE}")]
    Random,
    /// The operating system refused something.
    #[error("the API key in {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What came back.
        source: io::Error,
    },
}

impl ApiKeyError {
    /// The exit code of a program that ends with this error.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Unsendable { .. } | Self::Empty { .. } => exit::CONFIG,
            Self::Random => exit::GENERAL,
            Self::Io { source, .. } => exit_code_of(source),
        }
    }
}

impl ApiKey {
    /// The key of the daemon on `dir`, made if there is none. An empty variable or configuration value is no key.
    pub fn find_or_make(
        variable: Option<&str>,
        configured: Option<&str>,
        dir: &DataDir,
        lock: &Lock,
    ) -> Result<Self, ApiKeyError> {
        match Self::find(variable, configured, dir.path())? {
            Some(key) => Ok(key),
            None => Self::make(dir, lock),
        }
    }

    /// The key as a client of the daemon on `dir` finds it; nothing is made.
    pub fn find(
        variable: Option<&str>,
        configured: Option<&str>,
        dir: &Path,
    ) -> Result<Option<Self>, ApiKeyError> {
        for (text, origin) in [(variable, Origin::Environment), (configured, Origin::Config)] {
            if let Some(text) = text.map(str::trim).filter(|text| !text.is_empty()) {
                return Self::checked(text, origin).map(Some);
            }
        }
        let path = dir.join(NAME);
        let content =
            read_own(&path, MAX_BYTES).map_err(|source| ApiKeyError::Io { path: path.clone(), source })?;
        let Some(content) = content else { return Ok(None) };
        let text = String::from_utf8_lossy(&content);
        if text.trim().is_empty() {
            return Err(ApiKeyError::Empty { path });
        }
        Self::checked(text.trim(), Origin::File(path)).map(Some)
    }

    fn make(dir: &DataDir, lock: &Lock) -> Result<Self, ApiKeyError> {
        let mut random = [0_u8; RANDOM_BYTES];
        aws_lc_rs::rand::fill(&mut random).map_err(|_| ApiKeyError::Random)?;
        let text: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = dir.path().join(NAME);
        dir.write_whole(NAME, format!("{text}\n").as_bytes(), lock)
            .map_err(|source| ApiKeyError::Io { path: path.clone(), source })?;
        Self::checked(&text, Origin::File(path))
    }

    fn checked(text: &str, origin: Origin) -> Result<Self, ApiKeyError> {
        let short = u64::try_from(text.len()).is_ok_and(|length| length <= MAX_BYTES);
        if !short || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(ApiKeyError::Unsendable { origin });
        }
        Ok(Self { text: text.to_owned(), digest: Sha256::digest(text).into(), origin })
    }

    /// Whether `presented` is this key, in a time that does not depend on where they differ.
    pub fn matches(&self, presented: &[u8]) -> bool {
        let presented: [u8; 32] = Sha256::digest(presented).into();
        verify_slices_are_equal(&self.digest, &presented).is_ok()
    }

    /// The key itself, for a header that we send or for `status --show-key`; never for a log.
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// Where the key comes from.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(..)")
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Environment => f.write_str(VARIABLE),
            Self::Config => f.write_str("`api_key` in the configuration file"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn data_dir() -> (tempfile::TempDir, DataDir, Lock) {
        let home = tempfile::tempdir().unwrap();
        let dir = DataDir::open(&home.path().join("data")).unwrap();
        let lock = Lock::take(&dir).unwrap();
        (home, dir, lock)
    }

    #[test]
    fn the_first_start_makes_a_key_that_the_next_one_finds() {
        let (_home, dir, lock) = data_dir();
        assert!(ApiKey::find(None, None, dir.path()).unwrap().is_none());
        let made = ApiKey::find_or_make(Some(""), Some("  "), &dir, &lock).unwrap();
        let path = dir.path().join(NAME);
        assert_eq!(made.origin(), &Origin::File(path.clone()));
        assert_eq!(made.reveal().len(), 64);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let found = ApiKey::find_or_make(None, None, &dir, &lock).unwrap();
        assert_eq!(found.reveal(), made.reveal());
        let names: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(names.iter().all(|name| !name.to_string_lossy().ends_with(".tmp")), "{names:?}");
    }

    #[test]
    fn environment_wins_over_configuration_and_configuration_over_the_file() {
        let (_home, dir, lock) = data_dir();
        let file = ApiKey::find_or_make(None, None, &dir, &lock).unwrap();
        let environment = ApiKey::find(Some("from-env"), Some("from-config"), dir.path()).unwrap().unwrap();
        assert_eq!((environment.reveal(), environment.origin()), ("from-env", &Origin::Environment));
        let config = ApiKey::find(Some(""), Some("from-config"), dir.path()).unwrap().unwrap();
        assert_eq!((config.reveal(), config.origin()), ("from-config", &Origin::Config));
        assert_eq!(ApiKey::find(None, Some(""), dir.path()).unwrap().unwrap().reveal(), file.reveal());
    }

    #[test]
    fn only_the_whole_key_matches() {
        let (_home, dir, _lock) = data_dir();
        let key = ApiKey::find(Some("sesame-open"), None, dir.path()).unwrap().unwrap();
        assert!(key.matches(b"sesame-open"));
        for wrong in ["", "sesame", "sesame-open ", "Sesame-open", "sesame-opensesame-open"] {
            assert!(!key.matches(wrong.as_bytes()), "{wrong:?}");
        }
        assert_eq!(format!("{key:?}"), "ApiKey(..)");
    }

    #[test]
    fn a_key_that_no_header_can_carry_is_refused_and_not_shown() {
        let (_home, dir, _lock) = data_dir();
        for bad in ["two words", "line\nbreak", "schlüssel", &"x".repeat(4097)] {
            let error = ApiKey::find(Some(bad), None, dir.path()).unwrap_err();
            assert_eq!(error.exit_code(), exit::CONFIG);
            assert!(!error.to_string().contains(bad));
        }
    }

    #[test]
    fn an_empty_or_open_key_file_is_an_error_that_says_what_to_do() {
        let (_home, dir, lock) = data_dir();
        let path = dir.path().join(NAME);
        fs::write(&path, "\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let error = ApiKey::find_or_make(None, None, &dir, &lock).unwrap_err();
        assert!(error.to_string().contains("delete it"), "{error}");
        fs::write(&path, "abc").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        let error = ApiKey::find_or_make(None, None, &dir, &lock).unwrap_err();
        assert!(error.to_string().contains("chmod"), "{error}");
    }
}
