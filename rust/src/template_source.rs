//! What Jinja2 does to the text of a template before it reads it, and minijinja does not.

/// `source` as minijinja should read it: line ends made "\n", generation tags replaced. Keeps every line's number.
pub fn prepare(source: &str) -> String {
    strip_generation_tags(&source.replace("\r\n", "\n").replace('\r', "\n"))
}

/// `{% generation %}` ... `{% endgeneration %}` is Hugging Face's mark around what the assistant wrote, used in
/// training to mask losses. It prints its body, so it is read as a block that is always taken.
///
/// Replaces the two tags, keeping their white-space control.
fn strip_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let (before, tag) = rest.split_at(start);
        out.push_str(before);
        let Some(end) = tag.find("%}") else {
            rest = tag;
            break;
        };
        let (tag, after) = tag.split_at(end + 2);
        out.push_str(&replaced(tag));
        rest = after;
    }
    out.push_str(rest);
    out
}

fn replaced(tag: &str) -> String {
    let inner = &tag[2..tag.len() - 2];
    let word = inner.trim_matches(['-', '+']).trim();
    match word {
        "generation" => tag.replacen("generation", "if true", 1),
        "endgeneration" => tag.replacen("endgeneration", "endif", 1),
        _ => tag.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_two_tags_change() {
        assert_eq!(
            strip_generation_tags(
                "a{%- generation -%}{{ '{%' }}{% if x %}\n{%  endgeneration%}{% b"
            ),
            "a{%- if true -%}{{ '{%' }}{% if x %}\n{%  endif%}{% b"
        );
    }
}
