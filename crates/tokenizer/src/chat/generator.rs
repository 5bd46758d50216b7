//! What Jinja2's filters give lazily: an iterator that is true, has no length, is no JSON, and is empty once it was run
//! through. Lists that the engine itself computes lazily (slices, sums) are none.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use minijinja::value::{Enumerator, Kwargs, Object, ObjectRepr, Rest, Value};
use minijinja::{Environment, Error, State, filters};

use super::filters::with_options;

/// Items that can be taken once.
#[derive(Debug)]
struct Generator(Mutex<VecDeque<Value>>);

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

/// Makes Jinja2's lazy filters lazy.
pub(super) fn add_to(environment: &mut Environment) {
    environment.add_filter("candor_map", filters::map);
    environment.add_filter("candor_select", filters::select);
    environment.add_filter("candor_selectattr", filters::selectattr);
    environment.add_filter("candor_reject", filters::reject);
    environment.add_filter("candor_rejectattr", filters::rejectattr);
    environment.add_filter("candor_unique", filters::unique);
    environment.add_filter("candor_batch", filters::batch);
    environment.add_filter("candor_slice", filters::slice);
    environment.add_filter("candor_reverse", filters::reverse);
    for (name, eager) in [
        ("map", "candor_map"),
        ("select", "candor_select"),
        ("selectattr", "candor_selectattr"),
        ("reject", "candor_reject"),
        ("rejectattr", "candor_rejectattr"),
        ("unique", "candor_unique"),
        ("batch", "candor_batch"),
        ("slice", "candor_slice"),
        ("reverse", "candor_reverse"),
    ] {
        environment.add_filter(
            name,
            move |state: &mut State, args: Rest<Value>, options: Kwargs| -> Result<Value, Error> {
                let items = state.apply_filter(eager, &with_options(args, options))?;
                if items.as_str().is_some() {
                    return Ok(items);
                }
                let items = items.try_iter()?.collect();
                Ok(Value::from_object(Generator(Mutex::new(items))))
            },
        );
    }
}
