//! Text in columns.

/// Lines whose first `names` columns are flush left and the others, numbers, flush right.
pub(crate) fn shown(names: usize, rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| Some(row.get(column)?.chars().count()))
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate();
        let cells: Vec<_> = cells
            .map(|(column, (cell, &width))| {
                if column < names {
                    format!("{cell:<width$}")
                } else {
                    format!("{cell:>width$}")
                }
            })
            .collect();
        cells.join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

/// A number with three digits that matter.
pub(crate) fn number(value: f64) -> String {
    let decimals = match value.abs() {
        0.0 | 100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_left_and_numbers_right() {
        let rows = [["", "µs"], ["raw", "7"], ["rslock", "123"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(shown(1, &rows), "         µs\nraw       7\nrslock  123\n");
    }

    #[test]
    fn small_numbers_keep_their_digits() {
        let shown = [0.0, 0.0312, 1.094, 46.23, 123_456.7].map(number);
        assert_eq!(shown, ["0", "0.031", "1.09", "46.2", "123457"]);
    }
}
