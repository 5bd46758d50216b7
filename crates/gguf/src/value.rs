//! Metadata values: the thirteen types of GGUF, their bytes and how they are printed. Keys are in `metadata.rs`.

use crate::cursor::{ByteOrder, Cursor, Fault};
use crate::element::{Element, MAX_FIRST_CAPACITY, MAX_VALUE_BYTES};
use std::fmt;

/// GGUF's id of the array type.
const ARRAY_ID: u32 = 9;

/// How deep arrays may lie in arrays. No known file goes beyond 2 (and ggml reads only 1).
const MAX_DEPTH: u32 = 8;

macro_rules! types {
    ($($variant:ident($ty:ty) $name:literal $doc:literal,)*) => {
        /// A metadata value.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Value {
            $(#[doc = $doc] $variant($ty),)*
            /// Values of one type.
            Array(Array),
        }

        /// The elements of an array value; all are of one type.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Array {
            $(#[doc = concat!("Each ", $doc)] $variant(Vec<$ty>),)*
            /// Each an array of its own type and length.
            Array(Vec<Array>),
        }

        impl Value {
            /// The type's name: `u32`, `string`, `array of f32`.
            pub fn type_name(&self) -> &'static str {
                match self { $(Value::$variant(_) => $name,)* Value::Array(array) => array.type_name() }
            }

            /// Reads the value that follows a key: its type id, then its bytes.
            pub(crate) fn read(cursor: &mut Cursor<'_>) -> Result<Value, Fault> {
                let offset = cursor.offset();
                match cursor.u32()? {
                    $(<$ty as Element>::ID => Ok(Value::$variant(<$ty as Element>::read(cursor)?)),)*
                    ARRAY_ID => Ok(Value::Array(Array::read(cursor, MAX_DEPTH)?)),
                    got => Err(Fault::Type { offset, got }),
                }
            }

            /// Writes what `read` reads.
            pub(crate) fn write(&self, order: ByteOrder, out: &mut Vec<u8>) {
                match self {
                    $(Value::$variant(x) => {
                        <$ty as Element>::ID.write(order, out);
                        x.write(order, out);
                    })*
                    Value::Array(array) => {
                        ARRAY_ID.write(order, out);
                        array.write(order, out);
                    }
                }
            }
        }

        impl Array {
            /// Number of elements (of the outermost array).
            pub fn len(&self) -> usize {
                match self { $(Array::$variant(run) => run.len(),)* Array::Array(run) => run.len() }
            }

            /// The type's name: `array of f32`, `array of arrays`.
            pub fn type_name(&self) -> &'static str {
                match self {
                    $(Array::$variant(_) => concat!("array of ", $name),)*
                    Array::Array(_) => "array of arrays",
                }
            }

            fn read(cursor: &mut Cursor<'_>, depth: u32) -> Result<Array, Fault> {
                let offset = cursor.offset();
                match cursor.u32()? {
                    $(<$ty as Element>::ID => Ok(Array::$variant(<$ty as Element>::read_run(cursor)?)),)*
                    ARRAY_ID if depth == 1 => Err(Fault::Depth { offset, expected: MAX_DEPTH }),
                    ARRAY_ID => {
                        // The least array is a type id and a count of 0: 12 bytes.
                        let count = cursor.count(12, MAX_VALUE_BYTES)?;
                        let mut run = Vec::with_capacity((count as usize).min(MAX_FIRST_CAPACITY));
                        for _ in 0..count {
                            run.push(Array::read(cursor, depth - 1)?);
                        }
                        Ok(Array::Array(run))
                    }
                    got => Err(Fault::Type { offset, got }),
                }
            }

            fn write(&self, order: ByteOrder, out: &mut Vec<u8>) {
                match self {
                    $(Array::$variant(run) => {
                        <$ty as Element>::ID.write(order, out);
                        (run.len() as u64).write(order, out);
                        run.iter().for_each(|x| x.write(order, out));
                    })*
                    Array::Array(run) => {
                        ARRAY_ID.write(order, out);
                        (run.len() as u64).write(order, out);
                        run.iter().for_each(|x| x.write(order, out));
                    }
                }
            }
        }

        $(
            impl From<$ty> for Value {
                fn from(x: $ty) -> Value { Value::$variant(x) }
            }

            impl From<Vec<$ty>> for Value {
                fn from(run: Vec<$ty>) -> Value { Value::Array(Array::$variant(run)) }
            }
        )*
    };
}

types! {
    U8(u8) "u8" "an unsigned 8-bit integer.",
    I8(i8) "i8" "a signed 8-bit integer.",
    U16(u16) "u16" "an unsigned 16-bit integer.",
    I16(i16) "i16" "a signed 16-bit integer.",
    U32(u32) "u32" "an unsigned 32-bit integer.",
    I32(i32) "i32" "a signed 32-bit integer.",
    F32(f32) "f32" "a 32-bit float.",
    Bool(bool) "bool" "true or false.",
    String(String) "string" "UTF-8 text.",
    U64(u64) "u64" "an unsigned 64-bit integer.",
    I64(i64) "i64" "a signed 64-bit integer.",
    F64(f64) "f64" "a 64-bit float.",
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::String(text.to_owned())
    }
}

impl From<Vec<&str>> for Value {
    fn from(run: Vec<&str>) -> Value {
        Value::Array(Array::String(run.into_iter().map(str::to_owned).collect()))
    }
}

impl From<Array> for Value {
    fn from(array: Array) -> Value {
        Value::Array(array)
    }
}

impl Array {
    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Elements of an array that are printed before it is cut short.
const SHOWN_ELEMENTS: usize = 8;
/// Characters of a string that are printed before it is cut short.
const SHOWN_CHARS: usize = 120;

/// One line: strings quoted and escaped, long strings and arrays cut short. `{:#}` cuts nothing.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::U8(x) => write!(f, "{x}"),
            Value::I8(x) => write!(f, "{x}"),
            Value::U16(x) => write!(f, "{x}"),
            Value::I16(x) => write!(f, "{x}"),
            Value::U32(x) => write!(f, "{x}"),
            Value::I32(x) => write!(f, "{x}"),
            Value::F32(x) => write!(f, "{x}"),
            Value::Bool(x) => write!(f, "{x}"),
            Value::String(x) => write_quoted(f, x),
            Value::U64(x) => write!(f, "{x}"),
            Value::I64(x) => write!(f, "{x}"),
            Value::F64(x) => write!(f, "{x}"),
            Value::Array(array) => array.fmt(f),
        }
    }
}

/// As for [`Value`]: `[1, 2, 3, ... (32000 in all)]`.
impl fmt::Display for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Array::U8(run) => write_run(f, run, |f, x| write!(f, "{x}")),
            Array::I8(run) => write_run(f, run, |f, x| write!(f, "{x}")),
            Array::U16(run) => write_run(f, run, |f, x| write!(f, "{x}")),
            Array::I16(run) => write_run(f, run, |f, x| write!(f, "{x}")),
            Array::U32(run) => write_run(f, run, |f, x| write!(f, "{x}")),
            Array::I32(run) => write_run(f, run, |f, x| write!(f, "{x}")),
            Array::F32(run) => write_run(f, run, |f, x| write!(f, "{x}")),
            Array::Bool(run) => write_run(f, run, |f, x| write!(f, "{x}")),
            Array::String(run) => write_run(f, run, |f, x| write_quoted(f, x)),
            Array::U64(run) => write_run(f, run, |f, x| write!(f, "{x}")),
            Array::I64(run) => write_run(f, run, |f, x| write!(f, "{x}")),
            Array::F64(run) => write_run(f, run, |f, x| write!(f, "{x}")),
            Array::Array(run) => write_run(f, run, |f, x| x.fmt(f)),
        }
    }
}

fn write_quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) if !f.alternate() => write!(f, "\"{}...\" ({} bytes)", text[..end].escape_debug(), text.len()),
        _ => write!(f, "\"{}\"", text.escape_debug()),
    }
}

fn write_run<'a, T>(
    f: &mut fmt::Formatter<'a>,
    run: &[T],
    write_one: impl Fn(&mut fmt::Formatter<'a>, &T) -> fmt::Result,
) -> fmt::Result {
    f.write_str("[")?;
    let shown = if f.alternate() { run.len() } else { run.len().min(SHOWN_ELEMENTS) };
    for (i, x) in run[..shown].iter().enumerate() {
        f.write_str(if i == 0 { "" } else { ", " })?;
        write_one(f, x)?;
    }
    if shown < run.len() {
        write!(f, ", ... ({} in all)", run.len())?;
    }
    f.write_str("]")
}
