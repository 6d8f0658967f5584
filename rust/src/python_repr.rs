//! `{{ value }}` as Jinja2 prints it: Python's `str(value)`.

use minijinja::value::{Value, ValueKind};

use crate::python_number::float_repr;

const MAX_DEPTH: usize = 256;

/// `str(value)`. Undefined prints nothing, as Jinja2's default Undefined does.
pub fn python_str(value: &Value) -> String {
    match value.kind() {
        ValueKind::Undefined => String::new(),
        ValueKind::String => value.as_str().unwrap_or("").to_string(),
        _ => {
            let mut out = String::new();
            write_repr(&mut out, value, 0);
            out
        }
    }
}

fn write_repr(out: &mut String, value: &Value, depth: usize) {
    if depth > MAX_DEPTH {
        out.push_str("...");
        return;
    }
    match value.kind() {
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::None => out.push_str("None"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number if value.is_integer() => out.push_str(&value.to_string()),
        ValueKind::Number => out.push_str(&float_repr(
            f64::try_from(value.clone()).unwrap_or(f64::NAN),
        )),
        ValueKind::String => write_string_repr(out, value.as_str().unwrap_or("")),
        ValueKind::Seq => write_items(out, value, depth),
        ValueKind::Map => write_dict(out, value, depth),
        _ => out.push_str(&value.to_string()),
    }
}

fn write_items(out: &mut String, value: &Value, depth: usize) {
    let tuple = value.is_tuple();
    let items: Vec<Value> = value.try_iter().map(Iterator::collect).unwrap_or_default();
    out.push(if tuple { '(' } else { '[' });
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        write_repr(out, item, depth + 1);
    }
    if tuple && items.len() == 1 {
        out.push(',');
    }
    out.push(if tuple { ')' } else { ']' });
}

fn write_dict(out: &mut String, value: &Value, depth: usize) {
    let keys: Vec<Value> = value.try_iter().map(Iterator::collect).unwrap_or_default();
    out.push('{');
    for (i, key) in keys.iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        write_repr(out, key, depth + 1);
        out.push_str(": ");
        write_repr(out, &value.get_item(key).unwrap_or_default(), depth + 1);
    }
    out.push('}');
}

/// `repr` of a str: single quotes unless only they occur in it; control characters escaped.
fn write_string_repr(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if (c as u32) < 0x20 || (0x7f..=0xa0).contains(&(c as u32)) || c == '\u{ad}' => {
                out.push_str(&format!("\\x{:02x}", c as u32));
            }
            c => out.push(c),
        }
    }
    out.push(quote);
}
