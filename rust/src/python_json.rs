//! The `tojson` filter of Hugging Face chat templates: Python's `json.dumps(x, ensure_ascii=False, ...)`. Unlike
//! Jinja's own filter it does not escape `<`, `>`, `&` and `'`.

use std::fmt::Write;

use minijinja::value::{Kwargs, Rest, Value, ValueKind};
use minijinja::{Error, ErrorKind};

use crate::python_number::float_json;

/// Deeper nesting than any caller can hand in, and far from the end of the stack.
const MAX_DEPTH: usize = 256;

struct Style {
    ensure_ascii: bool,
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
}

impl Style {
    fn from_args(positional: &[Value], kwargs: &Kwargs) -> Result<Style, Error> {
        let arg = |index: usize, name: &str| -> Result<Option<Value>, Error> {
            let value = match positional.get(index) {
                Some(value) => Some(value.clone()),
                None => kwargs.get::<Option<Value>>(name)?,
            };
            Ok(value.filter(|v| !v.is_none() && !v.is_undefined()))
        };
        let indent = match arg(1, "indent")? {
            None => None,
            Some(value) => Some(match value.as_str() {
                Some(text) => text.to_string(),
                None => {
                    " ".repeat(usize::try_from(i64::try_from(value)?.clamp(0, 64)).unwrap_or(0))
                }
            }),
        };
        let (item_separator, key_separator) = match arg(2, "separators")? {
            Some(pair) => separators(&pair)?,
            // json.dumps leaves out the space after a comma when a line break follows it.
            None if indent.is_some() => (",".to_string(), ": ".to_string()),
            None => (", ".to_string(), ": ".to_string()),
        };
        let style = Style {
            ensure_ascii: arg(0, "ensure_ascii")?.is_some_and(|v| v.is_true()),
            indent,
            item_separator,
            key_separator,
            sort_keys: arg(3, "sort_keys")?.is_some_and(|v| v.is_true()),
        };
        kwargs.assert_all_used()?;
        Ok(style)
    }
}

fn separators(pair: &Value) -> Result<(String, String), Error> {
    let parts: Vec<Value> = pair.try_iter()?.collect();
    match parts.as_slice() {
        [item, key] => Ok((item.to_string(), key.to_string())),
        _ => Err(Error::new(
            ErrorKind::InvalidOperation,
            "tojson: separators must be a pair such as (\",\", \":\")",
        )),
    }
}

/// The filter: `x | tojson(ensure_ascii=False, indent=None, separators=None, sort_keys=False)`.
pub fn tojson(value: Value, positional: Rest<Value>, kwargs: Kwargs) -> Result<String, Error> {
    let style = Style::from_args(&positional, &kwargs)?;
    let mut out = String::new();
    write_value(&mut out, &value, &style, 0)?;
    Ok(out)
}

fn write_value(out: &mut String, value: &Value, style: &Style, depth: usize) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(refused("a value nested too deeply"));
    }
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => out.push_str(&number(value)),
        ValueKind::String => write_string(out, value.as_str().unwrap_or(""), style.ensure_ascii),
        ValueKind::Seq | ValueKind::Iterable => write_list(out, value, style, depth)?,
        ValueKind::Map => write_dict(out, value, style, depth)?,
        ValueKind::Undefined => return Err(refused("an undefined value")),
        kind => return Err(refused(&format!("a value of type {kind}"))),
    }
    Ok(())
}

fn refused(what: &str) -> Error {
    Error::new(
        ErrorKind::BadSerialization,
        format!("tojson: {what} is not JSON serializable"),
    )
}

fn number(value: &Value) -> String {
    if value.is_integer() {
        value.to_string()
    } else {
        float_json(f64::try_from(value.clone()).unwrap_or(f64::NAN))
    }
}

fn write_list(out: &mut String, value: &Value, style: &Style, depth: usize) -> Result<(), Error> {
    let mut first = true;
    out.push('[');
    for item in value.try_iter()? {
        begin_item(out, style, depth + 1, &mut first);
        write_value(out, &item, style, depth + 1)?;
    }
    end_items(out, style, depth, first);
    out.push(']');
    Ok(())
}

fn write_dict(out: &mut String, value: &Value, style: &Style, depth: usize) -> Result<(), Error> {
    let mut entries = Vec::new();
    for key in value.try_iter()? {
        entries.push((key_text(&key)?, value.get_item(&key)?));
    }
    if style.sort_keys {
        entries.sort_by(|a, b| a.0.cmp(&b.0));
    }
    let mut first = true;
    out.push('{');
    for (key, item) in entries {
        begin_item(out, style, depth + 1, &mut first);
        write_string(out, &key, style.ensure_ascii);
        out.push_str(&style.key_separator);
        write_value(out, &item, style, depth + 1)?;
    }
    end_items(out, style, depth, first);
    out.push('}');
    Ok(())
}

/// json.dumps turns numbers, booleans and None into text when they are keys.
fn key_text(key: &Value) -> Result<String, Error> {
    match key.kind() {
        ValueKind::String => Ok(key.as_str().unwrap_or("").to_string()),
        ValueKind::Number => Ok(number(key)),
        ValueKind::Bool => Ok(if key.is_true() { "true" } else { "false" }.to_string()),
        ValueKind::None => Ok("null".to_string()),
        kind => Err(refused(&format!("a key of type {kind}"))),
    }
}

fn begin_item(out: &mut String, style: &Style, depth: usize, first: &mut bool) {
    if !*first {
        out.push_str(&style.item_separator);
    }
    *first = false;
    break_line(out, style, depth);
}

fn end_items(out: &mut String, style: &Style, depth: usize, empty: bool) {
    if !empty {
        break_line(out, style, depth);
    }
}

fn break_line(out: &mut String, style: &Style, depth: usize) {
    if let Some(indent) = &style.indent {
        out.push('\n');
        for _ in 0..depth {
            out.push_str(indent);
        }
    }
}

fn write_string(out: &mut String, text: &str, ensure_ascii: bool) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 => push_escape(out, c as u16),
            // What Python keeps runs from space to tilde: DEL is escaped too.
            c if ensure_ascii && c > '~' => {
                let mut units = [0u16; 2];
                for unit in c.encode_utf16(&mut units) {
                    push_escape(out, *unit);
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

fn push_escape(out: &mut String, unit: u16) {
    // Writing into a String does not fail.
    let _ = write!(out, "\\u{unit:04x}");
}
