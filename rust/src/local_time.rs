//! `strftime_now(format)`: Python's `datetime.now().strftime(format)`, which is C's strftime on local time.

use std::ffi::CString;
use std::time::{SystemTime, UNIX_EPOCH};

use minijinja::{Error, ErrorKind};

const MAX_FORMAT: usize = 1024;

/// The current local time in `format`.
pub fn strftime_now(format: &str) -> Result<String, Error> {
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let seconds = libc::time_t::try_from(since_epoch.as_secs()).unwrap_or(0);
    let format = python_directives(format, since_epoch.subsec_micros());
    if format.is_empty() {
        return Ok(String::new());
    }
    // A trailing mark tells an empty result (which is legal) from a buffer that is too small.
    let pattern = CString::new(format + "$")
        .ok()
        .filter(|pattern| pattern.as_bytes().len() <= MAX_FORMAT)
        .ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidOperation,
                "strftime_now: the format holds a NUL or is over 1024 bytes long",
            )
        })?;
    let mut text = vec![0u8; 64 * MAX_FORMAT];
    // SAFETY: all pointers are to live values of the right type, and strftime writes at most text.len() bytes.
    let written = unsafe {
        let mut fields: libc::tm = std::mem::zeroed();
        libc::localtime_r(&seconds, &mut fields);
        libc::strftime(
            text.as_mut_ptr().cast(),
            text.len(),
            pattern.as_ptr(),
            &fields,
        )
    };
    text.truncate(written.saturating_sub(1));
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// What Python replaces itself: microseconds, and the zone of a time that has none.
fn python_directives(format: &str, micros: u32) -> String {
    let mut out = String::with_capacity(format.len());
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('f') => out.push_str(&format!("{micros:06}")),
            Some('z' | 'Z') => {}
            Some(other) => {
                out.push('%');
                out.push(other);
            }
            None => out.push_str("%%"),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_the_present() {
        let year: i32 = strftime_now("%Y").unwrap().parse().unwrap();
        assert!(year >= 2025);
        assert_eq!(strftime_now("100%%").unwrap(), "100%");
        assert_eq!(strftime_now("").unwrap(), "");
        assert_eq!(strftime_now("[%Z]").unwrap(), "[]");
        assert!(strftime_now("a\0b").is_err());
    }

    #[test]
    fn microseconds_have_six_digits() {
        assert_eq!(python_directives("%S.%f %z%", 42), "%S.000042 %%");
    }
}
