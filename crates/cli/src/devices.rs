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
    let columns = ["name", "memory", "free", "for models", "device", "driver"];
    let is_size = |name| ["memory", "free", "for models"].contains(&name);
    let mut table = Table::new(&columns.map(|name| (name, if is_size(name) { Align::Right } else { Align::Left })));
    for device in devices {
        let sizes = [device.total_bytes, device.free_bytes, device.budget_bytes];
        let [total, free, budget] =
            sizes.map(|bytes| bytes.map_or_else(|| "-".to_owned(), |bytes| Bytes(bytes).to_string()));
        let [description, driver] = [device.description, device.driver].map(|text| text.escape_debug().to_string());
        table.row(vec![device.name, total, free, budget, description, driver], None);
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
        "memory": device.total_bytes,
        "free": device.free_bytes,
        "budget": device.budget_bytes,
    })
}
