//! `quern_tokenizer_*`: the Hugging Face `tokenizers` crate.

use std::collections::{BTreeMap, HashMap};
use std::str::FromStr;

use serde_json::value::RawValue;
use serde_json::Value as Json;
use tokenizers::Tokenizer;

use crate::ffi::{guard, slice, utf8, Buffer, Code, Failure};

const FLAG_SPECIAL: u32 = 1;
const FLAG_ADDED: u32 = 2;

/// What the handle points at.
pub struct QuernTokenizer {
    inner: Tokenizer,
}

/// # Safety
/// See quern_rust.h.
#[no_mangle]
pub unsafe extern "C" fn quern_tokenizer_new(
    json: *const u8,
    json_len: usize,
    out: *mut *mut QuernTokenizer,
    error: *mut Buffer,
) -> Code {
    guard(out, error, || {
        let json = utf8(slice(json, json_len), "the file")?;
        let inner = parse(json)?;
        Ok(Box::into_raw(Box::new(QuernTokenizer { inner })))
    })
}

/// # Safety
/// `tokenizer` came from `quern_tokenizer_new` and is freed once.
#[no_mangle]
pub unsafe extern "C" fn quern_tokenizer_free(tokenizer: *mut QuernTokenizer) {
    if !tokenizer.is_null() {
        drop(Box::from_raw(tokenizer));
    }
}

/// # Safety
/// See quern_rust.h.
#[no_mangle]
pub unsafe extern "C" fn quern_tokenizer_encode(
    tokenizer: *const QuernTokenizer,
    text: *const u8,
    text_len: usize,
    add_special_tokens: i32,
    out: *mut Buffer,
    error: *mut Buffer,
) -> Code {
    guard(out, error, || {
        let text = utf8(slice(text, text_len), "the text")?;
        // encode_fast leaves out the character offsets, which nobody here reads.
        let encoding = (*tokenizer)
            .inner
            .encode_fast(text, add_special_tokens != 0)
            .map_err(|e| Failure::invalid(e.to_string()))?;
        let bytes: Vec<u8> = encoding
            .get_ids()
            .iter()
            .flat_map(|id| id.to_ne_bytes())
            .collect();
        Ok(Buffer::from(bytes))
    })
}

/// # Safety
/// See quern_rust.h.
#[no_mangle]
pub unsafe extern "C" fn quern_tokenizer_decode(
    tokenizer: *const QuernTokenizer,
    ids: *const u32,
    num_ids: usize,
    skip_special_tokens: i32,
    out: *mut Buffer,
    error: *mut Buffer,
) -> Code {
    guard(out, error, || {
        let text = (*tokenizer)
            .inner
            .decode(slice(ids, num_ids), skip_special_tokens != 0)
            .map_err(|e| Failure::invalid(e.to_string()))?;
        Ok(Buffer::from(text.into_bytes()))
    })
}

/// # Safety
/// See quern_rust.h.
#[no_mangle]
pub unsafe extern "C" fn quern_tokenizer_vocabulary(
    tokenizer: *const QuernTokenizer,
    out: *mut Buffer,
    error: *mut Buffer,
) -> Code {
    guard(out, error, || {
        Ok(Buffer::from(vocabulary(&(*tokenizer).inner)))
    })
}

fn parse(json: &str) -> Result<Tokenizer, Failure> {
    let outline = Outline::read(json)?;
    outline.check_decoder()?;
    let mut tokenizer = Tokenizer::from_str(json)
        .map_err(|e| Failure::invalid(format!("{e}{}", outline.missing())))?;
    tokenizer
        .with_truncation(None)
        .map_err(|e| Failure::invalid(e.to_string()))?;
    tokenizer.with_padding(None);
    Ok(tokenizer)
}

/// The file's top level, its values not looked into. Read before the crate does: plain JSON errors carry the
/// exact line, those of the crate's own types do not always.
struct Outline<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> Outline<'a> {
    fn read(json: &'a str) -> Result<Outline<'a>, Failure> {
        serde_json::from_str(json)
            .map(Outline)
            .map_err(|e| Failure::invalid(e.to_string()))
    }

    /// The parts a tokenizer.json must have and this one lacks, as the end of a message.
    fn missing(&self) -> String {
        let absent: Vec<&str> = ["model", "added_tokens", "pre_tokenizer"]
            .into_iter()
            .filter(|key| !self.0.contains_key(*key))
            .collect();
        if absent.is_empty() {
            String::new()
        } else {
            format!(" (it has no {})", absent.join(", no "))
        }
    }

    fn check_decoder(&self) -> Result<(), Failure> {
        let decoder: Json = match self.0.get("decoder") {
            Some(raw) => serde_json::from_str(raw.get()).unwrap_or(Json::Null),
            None => Json::Null,
        };
        if is_byte_level(&decoder) {
            return Ok(());
        }
        let name = match decoder.get("type").and_then(Json::as_str) {
            Some(name) => format!("decoder {name:?}"),
            None => "no decoder".to_string(),
        };
        Err(Failure::new(
            Code::Unsupported,
            format!("{name}; quern reads byte-level tokenizers, whose decoder is \"ByteLevel\""),
        ))
    }
}

fn is_byte_level(decoder: &Json) -> bool {
    match decoder.get("type").and_then(Json::as_str) {
        Some("ByteLevel") => true,
        Some("Sequence") => decoder
            .get("decoders")
            .and_then(Json::as_array)
            .is_some_and(|list| list.len() == 1 && is_byte_level(&list[0])),
        _ => false,
    }
}

/// The records of `quern_tokenizer_vocabulary`.
fn vocabulary(tokenizer: &Tokenizer) -> Vec<u8> {
    let byte_of: HashMap<char, u8> = byte_alphabet();
    let added = tokenizer.get_added_tokens_decoder();
    let mut ids: Vec<u32> = tokenizer.get_vocab(true).into_values().collect();
    ids.sort_unstable();
    ids.dedup();
    let mut out = Vec::new();
    for id in ids {
        let Some(content) = tokenizer.id_to_token(id) else {
            continue;
        };
        let bytes = token_bytes(&content, &byte_of);
        let mut flags = 0;
        if let Some(token) = added.get(&id) {
            flags |= FLAG_ADDED;
            if token.special {
                flags |= FLAG_SPECIAL;
            }
        }
        for word in [id, flags, bytes.len() as u32, content.len() as u32] {
            out.extend_from_slice(&word.to_ne_bytes());
        }
        out.extend_from_slice(&bytes);
        out.extend_from_slice(content.as_bytes());
    }
    out
}

/// The byte-level decoder's rule: a token written wholly in the byte alphabet stands for those bytes, any other
/// token for its own text.
fn token_bytes(content: &str, byte_of: &HashMap<char, u8>) -> Vec<u8> {
    content
        .chars()
        .map(|c| byte_of.get(&c).copied())
        .collect::<Option<Vec<u8>>>()
        .unwrap_or_else(|| content.as_bytes().to_vec())
}

/// GPT-2's alphabet: printable Latin-1 characters stand for their own byte, the other 68 bytes for U+0100 on, in
/// order.
fn byte_alphabet() -> HashMap<char, u8> {
    let mut next = 0x100u32;
    (0u8..=255)
        .map(|byte| {
            let printable = matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
            let code = if printable {
                u32::from(byte)
            } else {
                next += 1;
                next - 1
            };
            let letter = char::from_u32(code).expect("below the surrogates");
            (letter, byte)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_byte_alphabet_is_the_crates_own() {
        let ours: std::collections::BTreeSet<char> = byte_alphabet().into_keys().collect();
        let theirs: std::collections::BTreeSet<char> =
            tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet()
                .into_iter()
                .collect();
        assert_eq!(ours, theirs);
        assert_eq!(byte_alphabet()[&'Ġ'], b' ');
        assert_eq!(byte_alphabet()[&'Ċ'], b'\n');
    }

    #[test]
    fn other_decoders_are_refused_by_name() {
        let failure = parse(r#"{"decoder": {"type": "Metaspace"}}"#)
            .err()
            .unwrap();
        assert_eq!(failure.code, Code::Unsupported);
        assert!(failure.message.contains("Metaspace"));
    }
}
