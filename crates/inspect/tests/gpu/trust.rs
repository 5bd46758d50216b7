//! Verdicts on GPUs: found out once, remembered in a file, found out again when the file is about something else or broken.

use std::fs;

use candor::{
    LoadOptions,
    gguf::{Format, Gguf},
};
use candor_gpu::ShaderEdit;
use candor_inspect::trust::{self, Source, Trust};

use crate::{gpu, model};

const BROKEN: [ShaderEdit; 1] = [ShaderEdit { kernel: "Rope", from: "step[id.y + 1u].y", to: "step[1u].y" }];

#[test]
fn a_verdict_is_found_out_once_and_again_when_something_changes() {
    let Some(options) = gpu(&[]) else { return };
    let Some(broken) = gpu(&BROKEN) else { return };
    let folder = tempfile::tempdir().unwrap();
    let below = folder.path().join("not/there/yet");
    let gguf = model("llama", Format::Q4_0);
    let ask = |gguf: &Gguf, options: &LoadOptions| {
        let found = trust::gpus(gguf, options, Some(&below)).unwrap();
        let [Trust { failure, source, .. }] = &found[..] else { panic!("{found:?}") };
        (failure.clone(), *source)
    };
    let files = || -> Vec<_> { fs::read_dir(&below).unwrap().map(|entry| entry.unwrap().path()).collect() };

    assert_eq!(ask(&gguf, &options), (None, Source::Verified));
    assert_eq!(files().len(), 1);
    // A healthy driver's verdict holds for the same adapter and driver, whatever became of its shaders since.
    assert_eq!(ask(&gguf, &options), (None, Source::Remembered));
    assert_eq!(ask(&gguf, &broken), (None, Source::Remembered));

    let file = files().remove(0);
    let healthy = fs::read_to_string(&file).unwrap();
    let failed = "rope: error";
    for text in ["", "{", "null", "[]", &healthy.replace("\"driver\"", "\"drover\""), &healthy.replace("vulkan", "v")] {
        fs::write(&file, text).unwrap();
        let (failure, source) = ask(&gguf, &broken);
        assert!(source == Source::Verified && failure.unwrap().starts_with(failed), "{text:?}");
        let (failure, source) = ask(&gguf, &options);
        assert!(source == Source::Remembered && failure.unwrap().starts_with(failed), "{text:?}");
        assert_eq!(files(), std::slice::from_ref(&file));
    }

    // A model that asks for other shaders has a verdict of its own.
    assert_eq!(ask(&model("llama", Format::Q8_0), &options), (None, Source::Verified));
    assert_eq!(ask(&model("qwen3", Format::Q4_0), &options), (None, Source::Verified));
    assert_eq!(files().len(), 3);
}

#[test]
fn without_a_folder_it_is_found_out_each_time() {
    let (Some(options), Some(broken)) = (gpu(&[]), gpu(&BROKEN)) else { return };
    let gguf = model("qwen3", Format::F16);
    let ask = |options| trust::gpus(&gguf, options, None).unwrap().remove(0);
    for _ in 0..2 {
        assert_eq!(ask(&options).failure, None);
        assert!(ask(&broken).failure.is_some_and(|failure| failure.starts_with("rope: error")));
    }
    // A file where the folder should be is no reason to fail.
    let file = tempfile::NamedTempFile::new().unwrap();
    assert_eq!(trust::gpus(&gguf, &options, Some(file.path())).unwrap()[0].source, Source::Verified);
}
