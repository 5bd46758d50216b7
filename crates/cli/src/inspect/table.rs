//! Tables of text: columns as wide as their widest cell, lines in a style.

use std::io::Write;

use crate::{
    errors::Error,
    paint::{Paint, Style},
};

/// Where the text of a column stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// A table.
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<(Vec<String>, Option<Style>)>,
}

impl Table {
    /// A table with these columns.
    pub fn new(columns: &[(&str, Align)]) -> Table {
        let columns = columns.iter().map(|&(name, align)| (name.to_owned(), align)).collect();
        Table { columns, rows: Vec::new() }
    }

    /// Adds a column on the right.
    pub fn column(&mut self, name: &str, align: Align) {
        self.columns.push((name.to_owned(), align));
    }

    /// Adds a row, in a style.
    pub fn row(&mut self, cells: Vec<String>, style: Option<Style>) {
        self.rows.push((cells, style));
    }

    /// Prints it, the names of the columns first.
    pub fn print(&self, paint: Paint, out: &mut impl Write) -> Result<(), Error> {
        let names: Vec<String> = self.columns.iter().map(|(name, _)| name.clone()).collect();
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|(cells, _)| cells.get(column));
            cells.chain([&names[column]]).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..names.len()).map(width).collect();
        let line = |cells: &[String]| {
            let cells = cells.iter().zip(&widths).zip(&self.columns);
            let padded = cells.map(|((cell, &width), (_, align))| match align {
                Align::Left => format!("{cell:<width$}"),
                Align::Right => format!("{cell:>width$}"),
            });
            padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        writeln!(out, "{}", paint.paint(Style::Dim, line(&names)))?;
        for (cells, style) in &self.rows {
            match style {
                Some(style) => writeln!(out, "{}", paint.paint(*style, line(cells)))?,
                None => writeln!(out, "{}", line(cells))?,
            }
        }
        Ok(())
    }
}

/// A relative error in two digits: `0`, `1.2e-7`, `0.34`; what is no number as `inf`.
pub fn error(error: f64) -> String {
    match error {
        _ if !error.is_finite() => "inf".to_owned(),
        0.0 => "0".to_owned(),
        0.1..1000.0 => format!("{error:.2}"),
        _ => format!("{error:.1e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&[("name", Align::Left), ("n", Align::Right)]);
        table.row(vec!["a".into(), "100".into()], None);
        table.row(vec!["longer".into(), "1".into()], None);
        let mut out = Vec::new();
        table.print(Paint::Plain, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "name      n\na       100\nlonger    1\n");
        assert_eq!([0.0, 1.234e-7, 0.345, 15.0, f64::NAN].map(error), ["0", "1.2e-7", "0.34", "15.00", "inf"]);
    }
}
