//! `candor devices`: where a model can run on this machine.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use candor::DeviceInfo;
use serde_json::json;

use crate::{
    args::DevicesArgs,
    errors::Error,
    inspect::{
        json,
        table::{Align, Table},
    },
    output::Bytes,
    paint::Paint,
};

/// Runs the command.
pub fn devices(args: &DevicesArgs) -> Result<ExitCode, Error> {
    let devices = candor::devices()?;
    if args.json {
        json::print(&devices.iter().map(value).collect::<Vec<_>>())?;
        return Ok(ExitCode::SUCCESS);
    }
    let names = ["name", "memory", "device", "driver"];
    let mut table = Table::new(&names.map(|name| (name, if name == "memory" { Align::Right } else { Align::Left })));
    for device in devices {
        let memory = device.budget_bytes.map_or_else(|| "-".to_owned(), |bytes| Bytes(bytes).to_string());
        let [description, driver] = [device.description, device.driver].map(|text| text.escape_debug().to_string());
        table.row(vec![device.name, memory, description, driver], None);
    }
    let mut out = io::BufWriter::new(io::stdout().lock());
    table.print(Paint::of_stdout(), &mut out)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn value(device: &DeviceInfo) -> serde_json::Value {
    json!({
        "name": device.name,
        "device": device.description,
        "driver": device.driver,
        "memory": device.budget_bytes,
    })
}
