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
    let mut table = Table::new(&[("name", Align::Left), ("memory", Align::Right), ("device", Align::Left)]);
    for device in devices {
        let memory = device.budget_bytes.map_or_else(|| "-".to_owned(), |bytes| Bytes(bytes).to_string());
        table.row(vec![device.name, memory, device.description.escape_debug().to_string()], None);
    }
    let mut out = io::BufWriter::new(io::stdout().lock());
    table.print(Paint::of_stdout(), &mut out)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn value(device: &DeviceInfo) -> serde_json::Value {
    json!({ "name": device.name, "device": device.description, "memory": device.budget_bytes })
}
