//! Where a database is: a file or a server, as it is named on the command line.

use std::path::Path;

use patra_store::{StoreError, shown};

use crate::failure::{Exit, Failure};

/// A server's URL as it is; of `sqlite:PATH` and `sqlite://PATH` the path.
pub fn place_of(database: &str) -> Result<&str, Failure> {
    if let Some(rest) = database.strip_prefix("sqlite:") {
        return Ok(rest.strip_prefix("//").unwrap_or(rest));
    }
    match database.split_once("://") {
        Some((scheme, _)) if !SERVERS.contains(&scheme) => {
            Err(Failure::new(Exit::Usage, format!("this release cannot use `{scheme}` databases"))
                .hint("use a path, `sqlite:PATH`, `postgres://…` or `mysql://…`"))
        }
        _ => Ok(database),
    }
}

const SERVERS: [&str; 4] = ["postgres", "postgresql", "mysql", "mariadb"];

/// Whether the place names a server rather than a file.
pub fn is_server(place: &str) -> bool {
    place.split_once("://").is_some_and(|(scheme, _)| SERVERS.contains(&scheme))
}

pub fn is_there(place: &str) -> bool {
    is_server(place) || place == ":memory:" || Path::new(place).exists()
}

pub fn unopened(database: &str, error: &StoreError) -> Failure {
    match error {
        StoreError::Open { .. } => Failure::new(Exit::Database, error),
        _ => Failure::new(Exit::Database, format!("the database `{}`: {error}", shown(database))),
    }
}
