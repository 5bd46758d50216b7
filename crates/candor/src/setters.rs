//! Options are made from their defaults, setter by setter, so that they can gain fields.

/// Writes a setter for each of these fields. What may be `None` takes the value itself, too.
macro_rules! setters {
    ($options:ident { $($(#[$attribute:meta])* $field:ident: $type:ty),* $(,)? }) => {
        impl $options {
            $(
                #[doc = concat!("Sets [`", stringify!($field), "`](field@Self::", stringify!($field), ").")]
                $(#[$attribute])*
                #[must_use]
                #[allow(clippy::useless_conversion, reason = "only what may be `None` is converted")]
                pub fn $field(mut self, $field: $type) -> Self {
                    self.$field = $field.into();
                    self
                }
            )*
        }
    };
}
