//! Nasty situations by their ids; each is switched on with `World::enable`.

use crate::world::World;

impl World {
    /// Switches a situation on; false when the id is unknown or its source is not part of this world.
    pub fn enable(&mut self, id: &str) -> bool {
        self.lanes.values_mut().any(|lane| lane.provider.enable(id))
    }
}
