//! Compiled pipelines on disk, for the next process: a file per adapter and driver in a folder that the caller names.
//!
//! It is a convenience: a broken file is ignored and written again, and write failures are ignored.
#![allow(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use wgpu::{AdapterInfo, Device, ErrorFilter, Features, PipelineCache, PipelineCacheDescriptor};

/// What a file begins with, before the sum of its bytes.
const MAGIC: [u8; 8] = *b"candorp1";

/// The pipelines of a device, written back when it is closed.
#[derive(Debug)]
pub(crate) struct Compiled {
    cache: PipelineCache,
    path: PathBuf,
    /// What the file held.
    before: Option<Vec<u8>>,
}

impl Compiled {
    /// `None` where the device keeps no pipelines.
    pub(crate) fn open(device: &Device, info: &AdapterInfo, folder: &Path) -> Option<Compiled> {
        if !device.features().contains(Features::PIPELINE_CACHE) {
            return None;
        }
        let driver = format!("{}\n{}\n{}\n{}", info.backend, info.name, info.driver, info.driver_info);
        let path = folder.join(format!("{:016x}.pipelines", sum(driver.as_bytes())));
        let before = fs::read(&path).ok().and_then(|file| unpacked(&file).map(<[u8]>::to_vec));
        let scope = device.push_error_scope(ErrorFilter::Validation);
        let descriptor = PipelineCacheDescriptor { label: Some("candor"), data: before.as_deref(), fallback: true };
        // SAFETY: the bytes are as `drop` wrote them, from `get_data` on this adapter with this driver: the file's name and
        // its sum say so. wgpu and the driver check their own headers besides, and begin empty if those do not fit.
        let cache = unsafe { device.create_pipeline_cache(&descriptor) };
        // No browser has this, so that it is known at once.
        let caught = pin!(scope.pop()).poll(&mut Context::from_waker(Waker::noop()));
        matches!(caught, Poll::Ready(None)).then_some(Compiled { cache, path, before })
    }

    pub(crate) fn cache(&self) -> &PipelineCache {
        &self.cache
    }
}

impl Drop for Compiled {
    fn drop(&mut self) {
        let Some(data) = self.cache.get_data().filter(|data| self.before.as_ref() != Some(data)) else { return };
        // Other processes see the old file or the new one. A process that cannot write compiles again next time.
        let draft = self.path.with_extension(format!("{}.draft", std::process::id()));
        let folder = self.path.parent().map_or(Ok(()), fs::create_dir_all);
        let written = folder.and_then(|()| fs::write(&draft, packed(&data)));
        if written.and_then(|()| fs::rename(&draft, &self.path)).is_err() {
            let _ = fs::remove_file(&draft);
        }
    }
}

fn packed(data: &[u8]) -> Vec<u8> {
    [&MAGIC[..], &sum(data).to_le_bytes(), data].concat()
}

fn unpacked(file: &[u8]) -> Option<&[u8]> {
    let (own, data) = file.strip_prefix(&MAGIC)?.split_at_checked(8)?;
    (own == sum(data).to_le_bytes()).then_some(data)
}

/// FNV-1a.
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_written_is_read() {
        let file = packed(b"pipelines");
        assert_eq!(unpacked(&file), Some(&b"pipelines"[..]));
        for cut in 0..file.len() {
            assert_eq!(unpacked(&file[..cut]), None, "the first {cut} bytes");
        }
        for at in 0..file.len() {
            let mut broken = file.clone();
            broken[at] ^= 1;
            assert_eq!(unpacked(&broken), None, "byte {at}");
        }
    }
}
