//! Which tables there are and how one is named.

use std::process::Command;

use candor_kernels::{ISA_VARIABLE, Kernels};

#[test]
fn tables_have_distinct_names_that_find_them() {
    let names: Vec<_> = Kernels::available().map(|table| table.name).collect();
    assert_eq!(names[0], "scalar");
    for (i, name) in names.iter().enumerate() {
        assert!(!names[..i].contains(name), "{names:?}");
        assert_eq!(Kernels::named(name).unwrap().name, *name);
    }
}

/// Those that a machine has come in this order, so that the last one is the best.
#[test]
fn tables_of_x86_64_are_ranked() {
    let order = ["scalar", "avx2", "avxvnni", "avx512", "avx512vnni", "avx512bf16", "amx"];
    let names = Kernels::available().map(|table| table.name);
    let ranks: Vec<_> = names.filter_map(|name| order.iter().position(|other| *other == name)).collect();
    assert!(ranks.is_sorted(), "{ranks:?} of {order:?}");
    if cfg!(target_arch = "x86_64") {
        assert_eq!(ranks.len(), Kernels::available().count(), "a table that is not in {order:?}");
    }
}

/// Only who chose the machine knows what it has: `cargo xtask aarch64` and `wasm` say so in a variable.
#[test]
fn the_machine_has_the_tables_that_it_should() {
    let names: Vec<_> = Kernels::available().map(|table| table.name).collect();
    println!("tables: {}", names.join(" "));
    if let Ok(expected) = std::env::var("EXPECTED_TABLES") {
        assert_eq!(names.join(" "), expected);
    }
}

#[test]
fn an_unknown_name_is_an_error_that_lists_what_there_is() {
    let message = Kernels::named("avx9").unwrap_err().to_string();
    assert!(message.contains("\"avx9\""), "{message}");
    for table in Kernels::available() {
        assert!(message.contains(table.name), "{message}");
    }
}

/// This program again; by cargo's runner where it is being emulated, since the system can't start it by itself.
fn this_program() -> Command {
    let program = std::env::current_exe().unwrap();
    match std::env::var("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER") {
        Ok(runner) if cfg!(all(target_arch = "aarch64", target_os = "linux")) => {
            let mut words = runner.split_whitespace();
            let mut command = Command::new(words.next().expect("a runner is a command"));
            command.args(words).arg(program);
            command
        }
        _ => Command::new(program),
    }
}

/// The variable belongs to the process: a child is asked.
#[test]
#[cfg_attr(any(miri, target_family = "wasm"), ignore = "starts no processes there")]
fn the_variable_names_the_table() {
    if let Ok(expected) = std::env::var("EXPECTED_TABLE") {
        match Kernels::from_env() {
            Ok(table) => assert_eq!(table.name, expected),
            Err(error) => assert_eq!(format!("{error}"), expected),
        }
        return;
    }
    let last = Kernels::available().last().unwrap().name;
    let error = Kernels::named("sse9").unwrap_err().to_string();
    // Tables that one machine has and another has not.
    let [avxvnni, amx] = ["avxvnni", "amx"].map(|name| match Kernels::available().any(|table| table.name == name) {
        true => name.to_owned(),
        false => error.replace("sse9", name),
    });
    let named = [("avxvnni", avxvnni.as_str()), ("amx", &amx)];
    for (value, expected) in [("scalar", "scalar"), ("", last), (last, last), ("sse9", &error)].into_iter().chain(named)
    {
        let status = this_program()
            .args(["the_variable_names_the_table", "--exact"])
            .env(ISA_VARIABLE, value)
            .env("EXPECTED_TABLE", expected)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .status();
        assert!(status.unwrap().success(), "{ISA_VARIABLE}={value:?}, expected {expected}");
    }
}
