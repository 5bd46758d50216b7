//! Compiled pipelines on disk.

use std::fs;
use std::io::Write;

use candor_gpu::Gpu;
use candor_ops::Prims;
use candor_testing::backend::{read, upload};

use crate::options;

#[test]
fn pipelines_are_kept_and_a_broken_file_is_written_anew() {
    let Some(options) = options() else { return };
    let folder = std::env::temp_dir().join(format!("candor-gpu-{}", std::process::id()));
    let options = options.cache(folder.clone());
    let run = || {
        let mut gpu = Gpu::new(&options).expect("the adapter opens");
        let (mut x, y) = (upload(&mut gpu, 2, &[1.0, 2.0]), upload(&mut gpu, 2, &[3.0, 4.0]));
        gpu.add(&mut x, &y);
        assert_eq!(read(&mut gpu, &x), [4.0, 6.0]);
        gpu.finish().expect("no fault");
    };
    run();
    let Ok(mut files) = fs::read_dir(&folder) else {
        let _ = writeln!(std::io::stderr(), "skipped: the adapter keeps no pipelines");
        return;
    };
    let path = files.next().expect("a file").expect("readable").path();
    assert!(files.next().is_none(), "one file per adapter and driver");
    let good = fs::read(&path).expect("readable");
    run();
    let mut flipped = good.clone();
    flipped[good.len() - 1] ^= 1;
    for broken in [&b""[..], b"nonsense", &good[..good.len() / 2], &flipped] {
        fs::write(&path, broken).expect("writable");
        run();
        assert_eq!(fs::read(&path).expect("readable").len(), good.len(), "after {} bytes", broken.len());
    }
    fs::remove_dir_all(&folder).expect("removable");
}
