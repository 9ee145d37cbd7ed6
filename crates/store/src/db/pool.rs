//! Connections that wait for use, and the way back to their place.
//!
//! After an I/O error a connection is closed and opened anew; it is never given back (INV-35).

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::connection::{Connection, Place};
use crate::error::DbError;

pub(super) struct Pool {
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
    /// A database in memory lives and dies with its only connection.
    keeps: bool,
}

impl Pool {
    pub fn new(size: u32, keeps: bool) -> Arc<Pool> {
        let permits = Arc::new(Semaphore::new(size.max(1) as usize));
        Arc::new(Pool { idle: Mutex::new(Vec::new()), permits, keeps })
    }

    pub fn put(&self, connection: Connection) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    }

    /// Waits for its turn, in the order of asking.
    pub async fn take(self: &Arc<Pool>, place: &Place) -> Result<Held, DbError> {
        let closed = |_| DbError::Unavailable("the store is closed".into());
        let permit = self.permits.clone().acquire_owned().await.map_err(closed)?;
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let reused = idle.is_some();
        let connection = match idle {
            Some(connection) => connection,
            None => place.connect().await?,
        };
        Ok(Held { connection: Some(connection), reused, pool: self.clone(), _permit: permit })
    }

    /// Waits until no transaction is open, also none that is being rolled back.
    #[cfg(test)]
    pub async fn settled(&self, size: u32) {
        let _all = self.permits.acquire_many(size.max(1)).await.expect("the pool is open");
    }

    pub async fn close(&self) {
        if self.keeps {
            return;
        }
        let idle: Vec<_> = self.idle.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect();
        for connection in idle {
            connection.close().await;
        }
    }
}

/// A connection in use.
pub(super) struct Held {
    connection: Option<Connection>,
    /// It waited in the pool: its server may have gone since.
    pub reused: bool,
    pool: Arc<Pool>,
    _permit: OwnedSemaphorePermit,
}

impl Held {
    pub fn connection(&mut self) -> Option<&mut Connection> {
        self.connection.as_mut()
    }

    /// Closes the connection instead of giving it back; the database rolls back what was open.
    pub fn discard(&mut self) {
        if !self.pool.keeps {
            self.connection = None;
        }
    }

    pub fn give_back(mut self) {
        if let Some(connection) = self.connection.take() {
            self.pool.put(connection);
        }
    }
}
