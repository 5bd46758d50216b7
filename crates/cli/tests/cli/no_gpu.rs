//! The program built without its feature `gpu`.

use crate::program::candor;

#[test]
fn a_gpu_is_an_error_that_says_why_and_auto_is_the_processor() {
    let args = ["run", "-p", "Hello", "-n", "2", "--temp", "0"];
    let on = |device| candor(args.iter().chain(&["--device", device]));
    let error = on("gpu").error();
    assert!(error.starts_with("error: device gpu: this program was built without it (cargo feature `gpu`)"), "{error}");
    assert_eq!(on("auto").text(), candor(args).text());
    assert!(on("gpu0").error().starts_with("error: device gpu0: expected one of auto, cpu, gpu, reference\n"));
    assert_eq!(candor(["devices"]).text().lines().count(), 2);
}
