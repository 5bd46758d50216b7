//! What Jinja2's filters give lazily: an iterator that is true, has no length, is no JSON, and is empty once it was run
//! through. Lists that the engine itself computes lazily (slices, sums) are none.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use minijinja::value::{Enumerator, Object, ObjectRepr, Value};

/// Items that can be taken once.
#[derive(Debug)]
pub(super) struct Generator(Mutex<VecDeque<Value>>);

impl Generator {
    pub fn new(items: VecDeque<Value>) -> Generator {
        Generator(Mutex::new(items))
    }
}

impl Object for Generator {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let items = Arc::clone(self);
        let next = move || items.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        Enumerator::Iter(Box::new(std::iter::from_fn(next)))
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        None
    }
}

/// Whether it can be taken once only.
pub(super) fn is_generator(value: &Value) -> bool {
    value.downcast_object_ref::<Generator>().is_some()
}
