//! What plugins compute once for a pod and read for each node.

use std::any::{Any, TypeId};
use std::sync::Arc;

/// Values by type, written before the nodes are looked at. A copy is cheap, so that a dry run can change its own.
#[derive(Clone, Default)]
pub struct CycleState {
    values: Vec<(TypeId, Arc<dyn Any + Send + Sync>)>,
}

impl CycleState {
    /// Keeps a value; an earlier one of the same type is replaced.
    pub fn write<T: Any + Send + Sync>(&mut self, value: T) {
        let id = TypeId::of::<T>();
        self.values.retain(|(held, _)| *held != id);
        self.values.push((id, Arc::new(value)));
    }

    /// The value of a type, if one was written.
    pub fn read<T: Any + Send + Sync>(&self) -> Option<&T> {
        let id = TypeId::of::<T>();
        self.values.iter().find(|(held, _)| *held == id).and_then(|(_, value)| value.downcast_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_changes_alone() {
        let mut state = CycleState::default();
        state.write(1_u32);
        state.write("a");
        let mut copy = state.clone();
        copy.write(2_u32);
        assert_eq!((state.read::<u32>(), copy.read::<u32>()), (Some(&1), Some(&2)));
        assert_eq!((copy.read::<&str>(), copy.read::<i64>()), (Some(&"a"), None));
    }
}
