//! What claims take turns over, health is kept of and figures are told of: a source's endpoint under one operation.

use crate::ports::Task;
use crate::spec::snapshot::SpecSnapshot;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition {
    pub provenance: String,
    pub endpoint: String,
    pub operation: String,
}

impl Partition {
    pub fn of(spec: &SpecSnapshot) -> Partition {
        Partition {
            provenance: spec.provenance.clone(),
            endpoint: spec.endpoint.clone(),
            operation: spec.operation.code().to_owned(),
        }
    }

    pub fn of_task(task: &Task) -> Partition {
        Partition {
            provenance: task.provenance.clone(),
            endpoint: task.endpoint.clone(),
            operation: task.operation.code().to_owned(),
        }
    }
}
