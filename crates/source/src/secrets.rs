//! Secrets from the environment (`env:NAME`) and from files (`file:PATH`), read at each request.

use patra_core::ports::Secrets;
use secrecy::SecretString;

/// Longest secret that is read from a file.
const SECRET_BYTES_MAX: u64 = 64 * 1024;

/// Resolves references; error texts name the reference, never a value.
#[derive(Clone, Copy, Debug, Default)]
pub struct EnvFileSecrets;

impl Secrets for EnvFileSecrets {
    fn resolve(&self, reference: &str) -> Result<SecretString, String> {
        let value = match reference.split_once(':') {
            Some(("env", name)) => std::env::var(name).map_err(|_| format!("secret `{reference}` is not set"))?,
            Some(("file", path)) => read(path).map_err(|error| format!("secret `{reference}`: {error}"))?,
            _ => return Err(format!("`{}` is not a secret reference (env:NAME, file:PATH)", kind_of(reference))),
        };
        let value = value.strip_suffix('\n').map_or(value.as_str(), |value| value.strip_suffix('\r').unwrap_or(value));
        if value.is_empty() {
            return Err(format!("secret `{reference}` is empty"));
        }
        Ok(SecretString::from(value.to_owned()))
    }
}

fn read(path: &str) -> Result<String, String> {
    let size = std::fs::metadata(path).map_err(|error| error.kind().to_string())?.len();
    if size > SECRET_BYTES_MAX {
        return Err("the file is too large".to_owned());
    }
    std::fs::read_to_string(path).map_err(|error| error.kind().to_string())
}

/// A value put where a reference belongs must not be shown.
fn kind_of(reference: &str) -> &str {
    match reference.split_once(':') {
        Some((kind, _)) if kind.len() <= 8 => kind,
        _ => "...",
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn a_file_is_read_without_its_last_newline_at_each_request() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let reference = format!("file:{}", path.display());
        for value in ["first", "second"] {
            std::fs::write(&path, format!("{value}\n")).unwrap();
            assert_eq!(EnvFileSecrets.resolve(&reference).unwrap().expose_secret(), value);
        }
        std::fs::write(&path, "\n").unwrap();
        assert!(EnvFileSecrets.resolve(&reference).unwrap_err().contains("empty"));
    }

    #[test]
    fn errors_name_the_reference_and_no_value() {
        let error = EnvFileSecrets.resolve("env:PATRA_NO_SUCH_NAME").unwrap_err();
        assert!(error.contains("env:PATRA_NO_SUCH_NAME"), "{error}");
        let error = EnvFileSecrets.resolve("hunter2-plain-value").unwrap_err();
        assert!(!error.contains("hunter2"), "{error}");
        assert!(EnvFileSecrets.resolve("file:/no/such/file").is_err());
    }
}
