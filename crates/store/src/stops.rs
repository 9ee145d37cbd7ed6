//! What keeps a source from being asked: a person, its fuse, or an open circuit. Few rows, read by every claim.

use std::sync::Arc;

use patra_core::healing::{Circuit, Passage, Site};
use patra_core::ports::Partition;
use patra_core::time::Timestamp;

use crate::circuit;
use crate::db::Tx;
use crate::error::DbError;
use crate::step::ended;
use crate::store::Inner;
use crate::value::params;

const STOPPED: &str = "-- control.stopped
    SELECT id, provenance_code, endpoint_name, paused, fuse_blown, circuit_code, circuit_until, circuit_epoch
      FROM ing_source_control WHERE paused = 1 OR fuse_blown = 1 OR circuit_code <> 'CLOSED'";

pub(crate) struct Stops {
    now: Timestamp,
    /// Nobody may claim from these; an empty endpoint stands for all.
    stopped: Vec<Site>,
    circuits: Vec<(Site, Circuit)>,
}

impl Stops {
    pub async fn read(tx: &mut Tx) -> Result<Stops, DbError> {
        let mut stops = Stops { now: tx.now(), stopped: Vec::new(), circuits: Vec::new() };
        for row in tx.rows("ing_source_control", STOPPED, params! {}).await? {
            let site = Site { provenance: row.string("provenance_code")?, endpoint: row.string("endpoint_name")? };
            let circuit = circuit::of_row(&row)?;
            if row.int("paused")? != 0 || row.int("fuse_blown")? != 0 {
                stops.stopped.push(site);
            } else {
                stops.circuits.push((site, circuit));
            }
        }
        Ok(stops)
    }

    /// Only a person lets it go on.
    fn is_stopped(&self, provenance: &str, endpoint: &str) -> bool {
        let held =
            |site: &Site| site.provenance == provenance && (site.endpoint.is_empty() || site.endpoint == endpoint);
        self.stopped.iter().any(held)
    }

    /// `None` where only a person lets it go on.
    pub fn passage(&self, partition: &Partition) -> Option<Passage> {
        let stopped = self.is_stopped(&partition.provenance, &partition.endpoint);
        let circuit = self.circuit(partition);
        (!stopped).then(|| circuit.map_or(Passage::Free, |circuit| circuit.passage(self.now)))
    }

    /// The circuit whose probe a task of this partition must take.
    pub fn probe(&self, partition: &Partition) -> Option<Circuit> {
        self.circuit(partition).filter(|circuit| circuit.passage(self.now) == Passage::Probe)
    }

    fn circuit(&self, partition: &Partition) -> Option<Circuit> {
        let of =
            |(at, _): &&(Site, Circuit)| at.provenance == partition.provenance && at.endpoint == partition.endpoint;
        self.circuits.iter().find(of).map(|(_, circuit)| *circuit)
    }
}

pub(crate) async fn is_stopped(store: Arc<Inner>, provenance: Arc<str>, endpoint: Arc<str>) -> Result<bool, DbError> {
    let mut tx = store.db.read().await?;
    let result = Stops::read(&mut tx).await.map(|stops| stops.is_stopped(&provenance, &endpoint));
    ended(tx, result).await
}

pub(crate) fn site(partition: &Partition) -> Site {
    Site { provenance: partition.provenance.clone(), endpoint: partition.endpoint.clone() }
}
