//! Methods of Python's str that templates call and that differ from, or are missing in, minijinja-contrib.

use minijinja::value::{from_args, Kwargs, Tuple, Value, ValueKind};
use minijinja::{Error, ErrorKind, State};
use minijinja_contrib::pycompat;

/// Called for `value.method(args)` when minijinja itself has no such method.
pub fn call_method(
    state: &mut State,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    let own = match value.as_str() {
        Some(text) if value.kind() == ValueKind::String => str_method(text, method, args)?,
        _ => collection_method(value, method, args)?,
    };
    match own {
        Some(result) => Ok(result),
        None => pycompat::unknown_method_callback(state, value, method, args),
    }
}

fn str_method(s: &str, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    Ok(Some(match method {
        "strip" | "lstrip" | "rstrip" => {
            let (chars,): (Option<&str>,) = from_args(args)?;
            Value::from(strip(s, chars, method != "rstrip", method != "lstrip"))
        }
        "split" | "rsplit" => {
            let (separator, limit) = split_args(args)?;
            let parts = if method == "split" {
                split(s, separator.as_deref(), limit)?
            } else {
                rsplit(s, separator.as_deref(), limit)?
            };
            parts.into_iter().map(Value::from).collect()
        }
        "splitlines" => {
            let (keep_ends,): (Option<bool>,) = from_args(args)?;
            splitlines(s, keep_ends.unwrap_or(false))
                .into_iter()
                .map(Value::from)
                .collect()
        }
        "partition" | "rpartition" => {
            let (separator,): (&str,) = from_args(args)?;
            partition(s, separator, method == "rpartition")
        }
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Value::from(s.strip_prefix(prefix).unwrap_or(s))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Value::from(s.strip_suffix(suffix).unwrap_or(s))
        }
        "capitalize" => {
            let () = from_args(args)?;
            Value::from(capitalize(s))
        }
        "title" => {
            let () = from_args(args)?;
            Value::from(title(s))
        }
        "swapcase" => {
            let () = from_args(args)?;
            Value::from(swapcase(s))
        }
        "isspace" => {
            let () = from_args(args)?;
            Value::from(!s.is_empty() && s.chars().all(is_space))
        }
        "zfill" => {
            let (width,): (usize,) = from_args(args)?;
            Value::from(zfill(s, width.min(MAX_WIDTH)))
        }
        "ljust" | "rjust" => {
            let (width, fill): (usize, Option<&str>) = from_args(args)?;
            let gap = width.min(MAX_WIDTH).saturating_sub(s.chars().count());
            let padding = fill.unwrap_or(" ").repeat(gap);
            Value::from(if method == "ljust" {
                format!("{s}{padding}")
            } else {
                format!("{padding}{s}")
            })
        }
        "index" | "rindex" => {
            let (what,): (&str,) = from_args(args)?;
            let found = if method == "index" {
                s.find(what)
            } else {
                s.rfind(what)
            };
            let at = found.ok_or_else(|| invalid("substring not found"))?;
            Value::from(s[..at].chars().count())
        }
        _ => return Ok(None),
    }))
}

fn collection_method(value: &Value, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    if method == "index" && value.kind() == ValueKind::Seq {
        let (what,): (&Value,) = from_args(args)?;
        let at = value.try_iter()?.position(|item| item == *what);
        return match at {
            Some(at) => Ok(Some(Value::from(at))),
            None => Err(invalid("the list has no such item")),
        };
    }
    if method == "copy" && matches!(value.kind(), ValueKind::Seq | ValueKind::Map) {
        let () = from_args(args)?;
        return Ok(Some(value.clone()));
    }
    Ok(None)
}

/// A template cannot ask for more padding than this.
const MAX_WIDTH: usize = 1 << 20;

fn invalid(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

/// str.isspace(): Unicode white space and the four ASCII separators.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// str.strip, lstrip and rstrip, with or without a set of characters.
pub fn strip<'a>(s: &'a str, chars: Option<&str>, left: bool, right: bool) -> &'a str {
    let drop = |c: char| chars.map_or_else(|| is_space(c), |set| set.contains(c));
    let s = if left { s.trim_start_matches(drop) } else { s };
    if right {
        s.trim_end_matches(drop)
    } else {
        s
    }
}

fn split_args(args: &[Value]) -> Result<(Option<String>, Option<usize>), Error> {
    let (separator, limit, kwargs): (Option<Value>, Option<Value>, Kwargs) = from_args(args)?;
    let separator = match separator {
        Some(value) => Some(value),
        None => kwargs.get("sep")?,
    };
    let limit = match limit {
        Some(value) => Some(value),
        None => kwargs.get("maxsplit")?,
    };
    kwargs.assert_all_used()?;
    let separator = separator
        .filter(|v| !v.is_none())
        .map(|v| {
            v.as_str()
                .map(str::to_string)
                .ok_or_else(|| invalid("split: sep must be a string"))
        })
        .transpose()?;
    // A negative limit means none.
    let limit = limit.map(i64::try_from).transpose()?.unwrap_or(-1);
    Ok((separator, usize::try_from(limit).ok()))
}

fn split<'a>(s: &'a str, sep: Option<&str>, limit: Option<usize>) -> Result<Vec<&'a str>, Error> {
    let limit = limit.unwrap_or(usize::MAX);
    if let Some(sep) = sep {
        if sep.is_empty() {
            return Err(invalid("split: empty separator"));
        }
        return Ok(s.splitn(limit.saturating_add(1), sep).collect());
    }
    let mut parts = Vec::new();
    let mut rest = s.trim_start_matches(is_space);
    while !rest.is_empty() {
        if parts.len() == limit {
            // Python keeps trailing white space in the unsplit remainder.
            parts.push(rest);
            break;
        }
        let end = rest.find(is_space).unwrap_or(rest.len());
        parts.push(&rest[..end]);
        rest = rest[end..].trim_start_matches(is_space);
    }
    Ok(parts)
}

fn rsplit<'a>(s: &'a str, sep: Option<&str>, limit: Option<usize>) -> Result<Vec<&'a str>, Error> {
    let limit = limit.unwrap_or(usize::MAX);
    let mut parts: Vec<&str> = Vec::new();
    if let Some(sep) = sep {
        if sep.is_empty() {
            return Err(invalid("split: empty separator"));
        }
        parts = s.rsplitn(limit.saturating_add(1), sep).collect();
    } else {
        let mut rest = s.trim_end_matches(is_space);
        while !rest.is_empty() {
            if parts.len() == limit {
                parts.push(rest);
                break;
            }
            let start = rest
                .char_indices()
                .rev()
                .find(|(_, c)| is_space(*c))
                .map_or(0, |(at, c)| at + c.len_utf8());
            parts.push(&rest[start..]);
            rest = rest[..start].trim_end_matches(is_space);
        }
    }
    parts.reverse();
    Ok(parts)
}

fn splitlines(s: &str, keep_ends: bool) -> Vec<&str> {
    let is_break = |c: char| {
        matches!(
            c,
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'
                ..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    let mut lines = Vec::new();
    let mut rest = s;
    while let Some(at) = rest.find(is_break) {
        let broken = &rest[at..];
        let width = if broken.starts_with("\r\n") {
            2
        } else {
            broken.chars().next().map_or(1, char::len_utf8)
        };
        lines.push(&rest[..if keep_ends { at + width } else { at }]);
        rest = &rest[at + width..];
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

fn partition(s: &str, separator: &str, from_right: bool) -> Value {
    let found = if from_right {
        s.rsplit_once(separator)
    } else {
        s.split_once(separator)
    };
    let parts = match found {
        Some((before, after)) => [before, separator, after],
        None if from_right => ["", "", s],
        None => [s, "", ""],
    };
    Value::from(Tuple::from(parts.map(Value::from)))
}

/// str.capitalize().
pub fn capitalize(s: &str) -> String {
    let mut chars = s.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().collect::<String>() + &chars.as_str().to_lowercase(),
        None => String::new(),
    }
}

/// str.title(): a capital at the start of each run of letters.
fn title(s: &str) -> String {
    let mut out = String::with_capacity(s.len());
    let mut in_word = false;
    for c in s.chars() {
        if in_word {
            out.extend(c.to_lowercase());
        } else {
            out.extend(c.to_uppercase());
        }
        in_word = c.is_alphabetic();
    }
    out
}

fn swapcase(s: &str) -> String {
    s.chars()
        .map(|c| {
            if c.is_uppercase() {
                c.to_lowercase().collect::<String>()
            } else {
                c.to_uppercase().collect::<String>()
            }
        })
        .collect()
}

fn zfill(s: &str, width: usize) -> String {
    let gap = width.saturating_sub(s.chars().count());
    let (sign, digits) = match s.strip_prefix(['+', '-']) {
        Some(digits) => s.split_at(s.len() - digits.len()),
        None => ("", s),
    };
    format!("{sign}{}{digits}", "0".repeat(gap))
}
