//! Jinja2's lazy filters, which give generators where minijinja's give lists.

use minijinja::value::{Kwargs, Rest, Value};
use minijinja::{Environment, Error, State, filters};

use super::filters::with_options;
use super::generator::Generator;

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
                Ok(Value::from_object(Generator::new(items)))
            },
        );
    }
}
