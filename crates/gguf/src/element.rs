//! How one metadata value of each type lies in a file: reading and writing numbers, bools, strings and runs of them.

use crate::cursor::{ByteOrder, Cursor, Fault};

/// Longest array or string of the metadata, in bytes of the file; ggml has the same cap. Without one, a flipped bit in a
/// count would copy gigabytes of weights before anything else is found wrong.
pub(crate) const MAX_VALUE_BYTES: u64 = 1 << 30;

/// Capacity to start a run of strings or arrays with: each takes more memory than file, so that a wrong count is not
/// trusted further than this.
pub(crate) const MAX_FIRST_CAPACITY: usize = 1 << 18;

/// A type that metadata values and array elements can have.
pub(crate) trait Element: Sized {
    /// GGUF's id of the type.
    const ID: u32;
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, Fault>;
    /// `count` values; the count comes from the file and is checked here.
    fn read_run(cursor: &mut Cursor<'_>) -> Result<Vec<Self>, Fault>;
    fn write(&self, order: ByteOrder, out: &mut Vec<u8>);
}

macro_rules! number {
    ($($ty:ident $id:literal,)*) => { $(
        impl Element for $ty {
            const ID: u32 = $id;

            fn read(cursor: &mut Cursor<'_>) -> Result<Self, Fault> {
                let order = cursor.order;
                let raw = cursor.take(size_of::<$ty>() as u64)?.try_into().expect("took the size of the number");
                Ok(match order {
                    ByteOrder::Little => $ty::from_le_bytes(raw),
                    ByteOrder::Big => $ty::from_be_bytes(raw),
                })
            }

            fn read_run(cursor: &mut Cursor<'_>) -> Result<Vec<Self>, Fault> {
                const SIZE: usize = size_of::<$ty>();
                let order = cursor.order;
                let count = cursor.count(SIZE as u64, MAX_VALUE_BYTES)?;
                let (raw, _) = cursor.take(count * SIZE as u64)?.as_chunks::<SIZE>();
                Ok(match order {
                    ByteOrder::Little => raw.iter().map(|x| $ty::from_le_bytes(*x)).collect(),
                    ByteOrder::Big => raw.iter().map(|x| $ty::from_be_bytes(*x)).collect(),
                })
            }

            fn write(&self, order: ByteOrder, out: &mut Vec<u8>) {
                match order {
                    ByteOrder::Little => out.extend_from_slice(&self.to_le_bytes()),
                    ByteOrder::Big => out.extend_from_slice(&self.to_be_bytes()),
                }
            }
        }
    )* };
}

number! { u8 0, i8 1, u16 2, i16 3, u32 4, i32 5, f32 6, u64 10, i64 11, f64 12, }

impl Element for bool {
    const ID: u32 = 7;

    fn read(cursor: &mut Cursor<'_>) -> Result<Self, Fault> {
        let offset = cursor.offset();
        match u8::read(cursor)? {
            0 => Ok(false),
            1 => Ok(true),
            got => Err(Fault::Bool { offset, got }),
        }
    }

    fn read_run(cursor: &mut Cursor<'_>) -> Result<Vec<Self>, Fault> {
        let count = cursor.count(1, MAX_VALUE_BYTES)?;
        (0..count).map(|_| bool::read(cursor)).collect()
    }

    fn write(&self, _: ByteOrder, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
}

impl Element for String {
    const ID: u32 = 8;

    fn read(cursor: &mut Cursor<'_>) -> Result<Self, Fault> {
        cursor.str(MAX_VALUE_BYTES).map(str::to_owned)
    }

    fn read_run(cursor: &mut Cursor<'_>) -> Result<Vec<Self>, Fault> {
        let count = cursor.count(8, MAX_VALUE_BYTES)?;
        let mut run = Vec::with_capacity((count as usize).min(MAX_FIRST_CAPACITY));
        for _ in 0..count {
            run.push(String::read(cursor)?);
        }
        Ok(run)
    }

    fn write(&self, order: ByteOrder, out: &mut Vec<u8>) {
        (self.len() as u64).write(order, out);
        out.extend_from_slice(self.as_bytes());
    }
}
