//! One file's header, metadata and tensor records, parsed and checked. Shards are put together in `file.rs`.

use crate::cursor::{ByteOrder, Cursor};
use crate::tensor::{MAX_DIMENSIONS, checked_bytes};
use crate::{Error, Metadata, TensorInfo, Value, looks};
use candor_quant::Format;
use std::collections::HashSet;

/// Alignment of a file that does not say one.
pub(crate) const DEFAULT_ALIGNMENT: u64 = 32;

/// Longest key or tensor name in bytes, as the specification has it.
pub(crate) const MAX_NAME_BYTES: u64 = 65535;

/// The least bytes that a key with its value takes: length, type id, a byte of value.
const MIN_ENTRY_BYTES: u64 = 8 + 4 + 1;
/// The least bytes that a tensor record takes: length, dimensions, type id, offset.
const MIN_RECORD_BYTES: u64 = 8 + 4 + 4 + 8;

/// All of a file but the data.
pub(crate) struct Directory {
    pub(crate) version: u32,
    pub(crate) order: ByteOrder,
    pub(crate) alignment: u64,
    pub(crate) metadata: Metadata,
    pub(crate) tensors: Vec<TensorInfo>,
}

/// Parses `head`, with which a file of `length` bytes begins, and checks every record against that length. If the head is too short
/// for the directory, that is [`Error::Truncated`].
pub(crate) fn parse(head: &[u8], length: u64) -> Result<Directory, Error> {
    looks::check_magic(head)?;
    let mut cursor = Cursor::new(head, length);
    cursor.take(4).map_err(|fault| fault.reading(format_args!("magic")))?;
    let version = read_version(&mut cursor)?;
    let tensor_count =
        cursor.count(MIN_RECORD_BYTES, u64::MAX).map_err(|fault| fault.reading(format_args!("number of tensors")))?;
    let key_count = cursor
        .count(MIN_ENTRY_BYTES, u64::MAX)
        .map_err(|fault| fault.reading(format_args!("number of metadata keys")))?;
    let metadata = read_metadata(&mut cursor, key_count)?;
    let alignment = alignment(&metadata)?;
    let records = read_records(&mut cursor, tensor_count)?;
    let tensors = place(records, cursor.offset().next_multiple_of(alignment), alignment, length)?;
    Ok(Directory { version, order: cursor.order, alignment, metadata, tensors })
}

/// Reads the version and, from its bytes, finds the order of all numbers: the wrong order makes it a multiple of 65536.
fn read_version(cursor: &mut Cursor<'_>) -> Result<u32, Error> {
    let raw = cursor.u32().map_err(|fault| fault.reading(format_args!("version")))?;
    let version = if raw != 0 && raw & 0xffff == 0 {
        cursor.order = ByteOrder::Big;
        raw.swap_bytes()
    } else {
        raw
    };
    match version {
        2 | 3 => Ok(version),
        got => Err(Error::Version { got }),
    }
}

fn read_metadata(cursor: &mut Cursor<'_>, count: u64) -> Result<Metadata, Error> {
    let mut metadata = Metadata::new();
    for index in 0..count {
        let key = cursor
            .str(MAX_NAME_BYTES)
            .map_err(|fault| fault.reading(format_args!("metadata key {index} of {count}")))?;
        let value = Value::read(cursor).map_err(|fault| fault.reading(format_args!("metadata {key}")))?;
        if key.is_empty() {
            return Err(Error::EmptyKey { index });
        }
        if metadata.get(key).is_some() {
            return Err(Error::DuplicateKey { key: key.to_owned() });
        }
        metadata.insert(key, value);
    }
    Ok(metadata)
}

/// The alignment that `metadata` sets, or the default one.
pub(crate) fn alignment(metadata: &Metadata) -> Result<u64, Error> {
    // A u32 as in ggml, so that rounding any offset in a file up to it cannot overflow.
    match metadata.u32("general.alignment")?.map(u64::from) {
        None => Ok(DEFAULT_ALIGNMENT),
        Some(got) if got.is_power_of_two() => Ok(got),
        Some(got) => Err(Error::Alignment { got }),
    }
}

/// Reads the records. `start` of each is still relative to the data section.
fn read_records(cursor: &mut Cursor<'_>, count: u64) -> Result<Vec<TensorInfo>, Error> {
    let mut records = Vec::new();
    for index in 0..count {
        let name = cursor
            .str(MAX_NAME_BYTES)
            .map_err(|fault| fault.reading(format_args!("name of tensor {index} of {count}")))?;
        records.push(read_record(cursor, name)?);
    }
    let mut names = HashSet::with_capacity(records.len());
    match records.iter().find(|record| !names.insert(record.name.as_str())) {
        Some(record) => Err(Error::DuplicateTensor { tensor: record.name.clone() }),
        None => Ok(records),
    }
}

fn read_record(cursor: &mut Cursor<'_>, name: &str) -> Result<TensorInfo, Error> {
    let dimensions =
        cursor.u32().map_err(|fault| fault.reading(format_args!("number of dimensions of tensor {name}")))?;
    if dimensions as usize > MAX_DIMENSIONS {
        return Err(Error::Dimensions { tensor: name.to_owned(), got: u64::from(dimensions) });
    }
    let mut shape = Vec::with_capacity(MAX_DIMENSIONS);
    for _ in 0..dimensions {
        shape.push(cursor.u64().map_err(|fault| fault.reading(format_args!("shape of tensor {name}")))?);
    }
    if shape.is_empty() {
        shape.push(1);
    }
    let id = cursor.u32().map_err(|fault| fault.reading(format_args!("type of tensor {name}")))?;
    let Some(format) = Format::from_ggml_id(id) else {
        return Err(Error::Format { tensor: name.to_owned(), got: id, name: Format::ggml_name(id) });
    };
    let start = cursor.u64().map_err(|fault| fault.reading(format_args!("offset of tensor {name}")))?;
    let bytes = checked_bytes(name, format, &shape)?;
    Ok(TensorInfo { name: name.to_owned(), format, shape, bytes, start, shard: 0 })
}

/// Turns offsets in the data section into offsets in the file, and checks that every tensor lies in the file alone.
fn place(mut tensors: Vec<TensorInfo>, data: u64, alignment: u64, length: u64) -> Result<Vec<TensorInfo>, Error> {
    for tensor in &mut tensors {
        if !tensor.start.is_multiple_of(alignment) {
            let (tensor, got) = (tensor.name.clone(), tensor.start);
            return Err(Error::Unaligned { tensor, expected: alignment, got });
        }
        let start = data.saturating_add(tensor.start);
        let got = length.saturating_sub(start);
        if start > length || got < tensor.bytes {
            return Err(Error::PastEnd { tensor: tensor.name.clone(), offset: start, expected: tensor.bytes, got });
        }
        tensor.start = start;
    }
    let mut by_place: Vec<&TensorInfo> = tensors.iter().filter(|tensor| tensor.bytes > 0).collect();
    by_place.sort_by_key(|tensor| tensor.start);
    match by_place.windows(2).find(|pair| pair[0].end() > pair[1].start) {
        None => Ok(tensors),
        Some(pair) => Err(Error::Overlap {
            first: pair[0].name.clone(),
            first_bytes: pair[0].start..pair[0].end(),
            second: pair[1].name.clone(),
            second_bytes: pair[1].start..pair[1].end(),
        }),
    }
}
