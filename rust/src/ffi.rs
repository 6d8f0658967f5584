//! What every function of the C ABI shares: buffers, error codes and the guard against panics.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Once;

/// Mirrors `QuernRustCode` of quern_rust.h.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    Ok = 0,
    Invalid = 1,
    Unsupported = 2,
    Raised = 3,
    Panic = 4,
}

/// Why a call failed: a code other than `Ok`, and a message for people.
pub struct Failure {
    pub code: Code,
    pub message: String,
}

impl Failure {
    pub fn new(code: Code, message: impl Into<String>) -> Failure {
        Failure {
            code,
            message: message.into(),
        }
    }

    pub fn invalid(message: impl Into<String>) -> Failure {
        Failure::new(Code::Invalid, message)
    }
}

/// Mirrors `QuernRustBuffer`: a `Vec<u8>` taken apart.
#[repr(C)]
pub struct Buffer {
    data: *mut u8,
    len: usize,
    capacity: usize,
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Buffer {
        let mut bytes = std::mem::ManuallyDrop::new(bytes);
        Buffer {
            data: bytes.as_mut_ptr(),
            len: bytes.len(),
            capacity: bytes.capacity(),
        }
    }
}

/// # Safety
/// `buffer` was filled by this library and is freed once.
#[no_mangle]
pub unsafe extern "C" fn quern_rust_buffer_free(buffer: Buffer) {
    if !buffer.data.is_null() {
        drop(Vec::from_raw_parts(
            buffer.data,
            buffer.len,
            buffer.capacity,
        ));
    }
}

/// # Safety
/// `data` points at `len` elements that live through the call, or `len` is 0.
pub unsafe fn slice<'a, T>(data: *const T, len: usize) -> &'a [T] {
    if len == 0 {
        &[]
    } else {
        std::slice::from_raw_parts(data, len)
    }
}

/// Bytes from C++ as text; the message names `what` and the offset of the first byte that is not UTF-8.
pub fn utf8<'a>(bytes: &'a [u8], what: &str) -> Result<&'a str, Failure> {
    std::str::from_utf8(bytes).map_err(|error| {
        Failure::invalid(format!(
            "{what} is not valid UTF-8: byte {} begins no character",
            error.valid_up_to()
        ))
    })
}

/// Runs the body of one C function: stores its value in `out`, or its message in `error`.
///
/// # Safety
/// `out` and `error` are valid for writing.
pub unsafe fn guard<T>(
    out: *mut T,
    error: *mut Buffer,
    body: impl FnOnce() -> Result<T, Failure>,
) -> Code {
    silence_panic_messages();
    let failure = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => {
            out.write(value);
            return Code::Ok;
        }
        Ok(Err(failure)) => failure,
        Err(panic) => Failure::new(Code::Panic, panic_message(panic.as_ref())),
    };
    error.write(Buffer::from(failure.message.into_bytes()));
    failure.code
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<&str>() {
        format!("panic: {text}")
    } else if let Some(text) = panic.downcast_ref::<String>() {
        format!("panic: {text}")
    } else {
        "panic".to_string()
    }
}

/// A library does not print: the message goes to the caller as an error instead.
fn silence_panic_messages() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| std::panic::set_hook(Box::new(|_| {})));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error() {
        let mut out = 0;
        let mut error = Buffer::from(Vec::new());
        let code = unsafe { guard(&mut out, &mut error, || panic!("at {}", 7)) };
        assert_eq!(code, Code::Panic);
        let message = unsafe { slice(error.data, error.len) };
        assert_eq!(message, b"panic: at 7");
        unsafe { quern_rust_buffer_free(error) };
    }

    #[test]
    fn text_that_is_not_utf8_is_named() {
        let failure = utf8(b"ab\xff", "prompt").err().unwrap();
        assert_eq!(failure.code, Code::Invalid);
        assert!(failure.message.contains("byte 2"), "{}", failure.message);
    }
}
