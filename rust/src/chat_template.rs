//! `quern_template_*`: chat templates, run by minijinja with what Hugging Face's Jinja2 environment offers.

use std::fmt;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Rest, Value, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind};

use crate::ffi::{guard, slice, utf8, Buffer, Code, Failure};
use crate::python_json::tojson;
use crate::python_repr::python_str;
use crate::python_str::{call_method, capitalize, strip};
use crate::template_source;

const NAME: &str = "chat_template";

/// A template that loops for ever ends after a second or two. A chat of 10,000 messages takes a tenth of this.
const FUEL: u64 = 20_000_000;

/// What the handle points at: an environment that holds one compiled template.
pub struct QuernTemplate {
    env: Environment<'static>,
}

/// # Safety
/// See quern_rust.h.
#[no_mangle]
pub unsafe extern "C" fn quern_template_new(
    source: *const u8,
    source_len: usize,
    out: *mut *mut QuernTemplate,
    error: *mut Buffer,
) -> Code {
    guard(out, error, || {
        let source = utf8(slice(source, source_len), "the template")?;
        let env = compile(source)?;
        Ok(Box::into_raw(Box::new(QuernTemplate { env })))
    })
}

/// # Safety
/// `template` came from `quern_template_new` and is freed once.
#[no_mangle]
pub unsafe extern "C" fn quern_template_free(template: *mut QuernTemplate) {
    if !template.is_null() {
        drop(Box::from_raw(template));
    }
}

/// # Safety
/// See quern_rust.h.
#[no_mangle]
pub unsafe extern "C" fn quern_template_render(
    template: *const QuernTemplate,
    context: *const u8,
    context_len: usize,
    out: *mut Buffer,
    error: *mut Buffer,
) -> Code {
    guard(out, error, || {
        let context = utf8(slice(context, context_len), "the template's context")?;
        let text = render(&(*template).env, context)?;
        Ok(Buffer::from(text.into_bytes()))
    })
}

fn compile(source: &str) -> Result<Environment<'static>, Failure> {
    let mut env = Environment::new();
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build()
        .map_err(|e| describe(&e))?;
    env.set_syntax(syntax);
    env.set_auto_escape_callback(|_| AutoEscape::None);
    env.set_fuel(Some(FUEL));
    env.set_unknown_method_callback(call_method);
    env.set_formatter(|out, _, value| match value.as_str() {
        Some(text) => out.write_str(text).map_err(Error::from),
        None => out.write_str(&python_str(value)).map_err(Error::from),
    });
    add_functions(&mut env);
    add_filters(&mut env);
    add_tests(&mut env);
    env.add_template_owned(NAME, template_source::prepare(source))
        .map_err(|e| describe(&e))?;
    Ok(env)
}

fn render(env: &Environment, context: &str) -> Result<String, Failure> {
    let context: Value = serde_json::from_str(context)
        .map_err(|e| Failure::invalid(format!("the template's context: {e}")))?;
    let template = env.get_template(NAME).map_err(|e| describe(&e))?;
    template.render(context).map_err(|e| describe(&e))
}

/// The text a template gave to raise_exception, carried inside minijinja's error.
#[derive(Debug)]
struct Raised(String);

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Raised {}

fn raise_exception(message: Value) -> Result<Value, Error> {
    let raised = Raised(python_str(&message));
    Err(Error::new(ErrorKind::InvalidOperation, "raise_exception").with_source(raised))
}

/// Finds the innermost cause, since calls through macros wrap errors, and the line it happened on.
fn describe(error: &Error) -> Failure {
    let mut innermost = error;
    let mut cause: Option<&(dyn std::error::Error + 'static)> = std::error::Error::source(error);
    while let Some(source) = cause {
        if let Some(raised) = source.downcast_ref::<Raised>() {
            return Failure::new(Code::Raised, raised.0.clone());
        }
        if let Some(inner) = source.downcast_ref::<Error>() {
            innermost = inner;
        }
        cause = source.source();
    }
    let line = innermost.line().or(error.line());
    let place = line.map_or(String::new(), |line| format!("line {line}: "));
    let kind = innermost.kind();
    let message = match innermost.detail() {
        Some(detail) => format!("{place}{kind}: {detail}"),
        None => format!("{place}{kind}"),
    };
    Failure::invalid(message)
}

fn add_functions(env: &mut Environment) {
    env.add_function("raise_exception", raise_exception);
    env.add_function("strftime_now", |format: String| {
        crate::local_time::strftime_now(&format)
    });
}

fn add_filters(env: &mut Environment) {
    env.add_filter("tojson", tojson);
    env.add_filter("string", |value: Value| python_str(&value));
    env.add_filter("capitalize", |value: Value| capitalize(&python_str(&value)));
    env.add_filter("trim", |value: Value, chars: Option<String>| {
        strip(&python_str(&value), chars.as_deref(), true, true).to_string()
    });
    env.add_filter("join", join);
}

/// Jinja2's join(d="", attribute=None), whose items print as Python prints them.
fn join(
    value: Value,
    positional: Rest<Value>,
    kwargs: minijinja::value::Kwargs,
) -> Result<String, Error> {
    let separator = match positional.first() {
        Some(value) => Some(value.clone()),
        None => kwargs.get::<Option<Value>>("d")?,
    };
    let attribute: Option<Value> = match positional.get(1) {
        Some(value) => Some(value.clone()),
        None => kwargs.get("attribute")?,
    };
    kwargs.assert_all_used()?;
    let separator = separator.map_or(String::new(), |v| python_str(&v));
    let mut parts = Vec::new();
    for item in value.try_iter()? {
        let item = match &attribute {
            Some(attribute) => item.get_item(attribute)?,
            None => item,
        };
        parts.push(python_str(&item));
    }
    Ok(parts.join(&separator))
}

/// Tests whose meaning in Jinja2 follows Python's types: text and dicts count as sequences there.
fn add_tests(env: &mut Environment) {
    env.add_test("sequence", |value: Value| {
        matches!(
            value.kind(),
            ValueKind::Seq | ValueKind::String | ValueKind::Map | ValueKind::Bytes
        )
    });
    env.add_test("iterable", |value: Value| {
        matches!(
            value.kind(),
            ValueKind::Seq
                | ValueKind::String
                | ValueKind::Map
                | ValueKind::Iterable
                | ValueKind::Undefined
        )
    });
    env.add_test("callable", |value: Value| value.kind() == ValueKind::Plain);
}
