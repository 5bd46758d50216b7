//! Opening paths: what is not a file, and split models with something amiss.

use candor_gguf::{Format, Gguf, Split, Writer};
use std::fs;
use std::path::{Path, PathBuf};

/// A fresh folder for one test.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the build folder is writable");
    folder
}

fn message(path: &Path) -> String {
    Gguf::open(path).expect_err("refused").to_string()
}

#[test]
fn paths_that_are_no_model() {
    let folder = folder("no-model");
    let at = |name: &str| folder.join(name);
    let said = |path: &Path, what: &str| format!("{}: {what}", path.display());

    assert_eq!(message(&folder), said(&folder, "expected a file, got a directory"));
    fs::write(at("empty"), b"").unwrap();
    assert_eq!(message(&at("empty")), said(&at("empty"), "not a GGUF file: it is empty"));
    fs::write(at("short"), b"GGUF\x03\0\0\0\0\0\0\0\0\0\0").unwrap();
    let short = "number of tensors: expected 8 bytes at offset 8, got 7 before the end of the file";
    assert_eq!(message(&at("short")), said(&at("short"), short));
    fs::write(at("text"), b"Once upon a time\n").unwrap();
    let text = "not a GGUF file: expected \"GGUF\" at the start, got \"Once\" (looks like a text file)";
    assert_eq!(message(&at("text")), said(&at("text"), text));
}

#[cfg(unix)]
#[test]
fn what_the_system_refuses() {
    use std::os::unix::fs::PermissionsExt;
    let null = Path::new("/dev/null");
    assert_eq!(message(null), "/dev/null: expected a file, got a special file");

    let missing = folder("missing").join("model.gguf");
    let said = format!("{}: cannot open: No such file or directory (os error 2)", missing.display());
    assert_eq!(message(&missing), said);

    let path = folder("permission").join("secret.gguf");
    Writer::new().write_file(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::File::open(&path).is_ok() {
        println!("skipped: this user (root?) may read every file");
        return;
    }
    assert_eq!(message(&path), format!("{}: cannot open: Permission denied (os error 13)", path.display()));
}

/// Three shards of one tensor each; their paths.
fn three(folder: &Path) -> Vec<PathBuf> {
    let mut writer = Writer::new();
    writer.insert("general.name", "three");
    for name in ["a", "b", "c"] {
        writer.tensor(name, Format::F32, &[4], vec![0; 16]).unwrap();
    }
    writer.write_shards(folder.join("m"), Split::Tensors(1)).unwrap()
}

/// A shard with the given keys and one tensor.
fn shard(path: &Path, tensor: &str, no: u16, count: u16, tensors: i32) {
    let mut writer = Writer::new();
    writer.tensor(tensor, Format::F32, &[4], vec![0; 16]).unwrap();
    // The writer sets the keys of a split itself: these are written under names of the same length, then renamed.
    writer.insert("spliT.no", no);
    writer.insert("spliT.count", count);
    writer.insert("spliT.tensors.count", tensors);
    let mut file = writer.to_bytes().unwrap().to_vec();
    while let Some(at) = file.windows(5).position(|window| window == b"spliT") {
        file[at + 4] = b't';
    }
    fs::write(path, file).unwrap();
}

#[test]
fn split_models_with_something_amiss() {
    let folder = folder("amiss");
    let said = |path: &Path, what: &str| format!("{}: {what}", path.display());

    let paths = three(&folder);
    let names: Vec<_> = paths.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"]);
    assert_eq!(Gguf::open(&paths[2]).unwrap().metadata().str("general.name").unwrap(), Some("three"));

    fs::remove_file(&paths[1]).unwrap();
    assert_eq!(message(&paths[2]), said(&paths[1], "shard 2 of 3: file is missing"));

    fs::write(&paths[1], b"half a shard").unwrap();
    let text = "not a GGUF file: expected \"GGUF\" at the start, got \"half\" (looks like a text file)";
    assert_eq!(message(&paths[0]), said(&paths[1], text));

    shard(&paths[1], "b", 1, 4, 3);
    assert_eq!(message(&paths[0]), said(&paths[1], "metadata split.count: expected 3, got 4"));
    shard(&paths[1], "b", 2, 3, 3);
    assert_eq!(message(&paths[0]), said(&paths[1], "metadata split.no: expected 1, got 2"));
    shard(&paths[1], "c", 1, 3, 3);
    assert_eq!(message(&paths[0]), said(&paths[0], "tensor c: is there twice"));
    shard(&paths[0], "a", 0, 3, 5);
    shard(&paths[1], "b", 1, 3, 3);
    assert_eq!(message(&paths[0]), said(&paths[0], "tensors in all shards: expected 5, got 3"));

    let renamed = folder.join("renamed.gguf");
    fs::copy(&paths[2], &renamed).unwrap();
    let name = "shard 3 of 3: expected a file name that ends in -00003-of-00003.gguf";
    assert_eq!(message(&renamed), said(&renamed, name));

    let alone = Gguf::from_bytes(fs::read(&paths[2]).unwrap().into()).expect_err("one of three").to_string();
    assert_eq!(alone, "metadata split.count: expected 1, got 3");
}

#[test]
fn prefault_tells_how_far_it_is() {
    let folder = folder("prefault");
    let paths = three(&folder);
    let total = paths.iter().map(|path| fs::metadata(path).unwrap().len()).sum::<u64>();
    let mut seen = Vec::new();
    Gguf::open(&paths[0]).unwrap().prefault(|done, all| seen.push((done, all)));
    assert!(seen.is_sorted() && seen.iter().all(|&(_, all)| all == total), "{seen:?}");
    assert_eq!(seen.last(), Some(&(total, total)));
    Gguf::read(&paths[0], candor_gguf::Pages::Usual).unwrap().prefault(|_, _| panic!("there is nothing to do"));
}

/// What `/proc/self/smaps` says of a mapped file behind `name`, on one line.
#[cfg(target_os = "linux")]
fn mapped(path: &Path, name: &str) -> String {
    let maps = fs::read_to_string("/proc/self/smaps").unwrap();
    let (_, rest) = maps.split_once(path.to_str().unwrap()).expect("the file is mapped");
    let (_, rest) = rest.split_once(name).unwrap();
    rest.lines().next().unwrap().trim().to_owned()
}

/// Bytes of a mapped file that are in this process's page table.
#[cfg(target_os = "linux")]
fn resident(path: &Path) -> u64 {
    1024 * mapped(path, "Rss:").strip_suffix(" kB").unwrap().parse::<u64>().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn a_mapped_file_asks_for_huge_pages() {
    if !Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
        println!("skipped: this system has no huge pages to give");
        return;
    }
    let path = folder("huge-pages").join("model.gguf");
    Writer::new().write_file(&path).unwrap();
    let _gguf = Gguf::open(&path).unwrap();
    let flags = mapped(&path, "VmFlags:");
    assert!(flags.split(' ').any(|flag| flag == "hg"), "{flags}");
}

#[cfg(target_os = "linux")]
#[test]
fn prefault_makes_every_page_ready() {
    // More than two pieces of what threads take at a time.
    const BYTES: usize = 40 << 20;
    let path = folder("prefault-pages").join("large.gguf");
    let mut writer = Writer::new();
    writer.tensor("a", Format::F32, &[BYTES as u64 / 4], vec![0; BYTES]).unwrap();
    writer.write_file(&path).unwrap();
    let gguf = Gguf::open(&path).unwrap();
    assert!(resident(&path) < BYTES as u64 / 2);
    gguf.prefault(|_, _| ());
    assert!(resident(&path) >= fs::metadata(&path).unwrap().len());
}

/// Says whether programs can have huge pages.
#[cfg(target_os = "linux")]
fn gives_huge_pages() -> bool {
    let choices = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    choices.is_ok_and(|choices| !choices.contains("[never]"))
}

#[cfg(target_os = "linux")]
#[test]
fn huge_pages_of_files_are_counted() {
    const BYTES: usize = 40 << 20;
    let path = folder("huge-bytes").join("large.gguf");
    let mut writer = Writer::new();
    writer.tensor("a", Format::F32, &[BYTES as u64 / 4], vec![0; BYTES]).unwrap();
    writer.write_file(&path).unwrap();
    let mapped_file = Gguf::open(&path).unwrap();
    mapped_file.prefault(|_, _| ());
    let kilobytes = mapped(&path, "FilePmdMapped:");
    let expected = 1024 * kilobytes.strip_suffix(" kB").unwrap().parse::<u64>().unwrap();
    assert_eq!(mapped_file.huge_bytes(), Some(expected));
    if gives_huge_pages() {
        let read = Gguf::read(&path, candor_gguf::Pages::Huge).unwrap();
        // Memory in pieces may not have all of it.
        let huge = read.huge_bytes().expect("Linux tells");
        assert!((8 << 20..=read.file_bytes()).contains(&huge), "{huge}");
    }
    assert_eq!(Gguf::from_bytes(fs::read(&path).unwrap().into()).unwrap().huge_bytes(), None);
}
