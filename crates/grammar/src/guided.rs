//! Follows a text by a schema, a regular expression or a grammar in Lark's syntax: the library's part.

use llguidance::{
    Matcher, ParserFactory,
    api::{StopReason, TopLevelGrammar},
};
use toktrie::{ApproximateTokEnv, InferenceCapabilities, SimpleVob};

use crate::vocabulary::Side;

/// What the library says, without what it adds for its makers.
pub fn plain(message: &str) -> String {
    let end = message.find("\n<").unwrap_or(message.len());
    message[..end].trim().to_owned()
}

/// Whether a grammar can be followed, found out on an alphabet of bytes.
///
/// # Errors
/// What is wrong with it.
pub fn check(grammar: &TopLevelGrammar) -> Result<(), String> {
    let env = ApproximateTokEnv::single_byte_env();
    let factory = ParserFactory::new(&env, InferenceCapabilities::default(), &[]);
    let mut factory = factory.map_err(|error| plain(&error.to_string()))?;
    factory.quiet();
    factory.limits_mut().verbose_errors = false;
    begin(&factory, grammar).map(drop)
}

/// The beginning of a text.
///
/// # Errors
/// What is wrong with the grammar.
pub fn begin(factory: &ParserFactory, grammar: &TopLevelGrammar) -> Result<Matcher, String> {
    let mut matcher = Matcher::new(factory.create_parser(grammar.clone()));
    if let Some(error) = matcher.get_error() {
        return Err(plain(&error));
    }
    // What it is not sure of is refused, too.
    match matcher.grammar_warnings().first() {
        Some(warning) => Err(plain(warning)),
        None => Ok(matcher),
    }
}

/// The tokens that may follow, and whether the text may end.
///
/// # Errors
/// Where the grammar is too complex to say.
pub fn allowed(matcher: &mut Matcher, side: &Side) -> Result<(SimpleVob, bool), String> {
    if matcher.is_stopped() && !matcher.is_error() {
        return Ok((side.trie().alloc_token_set(), true));
    }
    let may_end = matcher.is_accepting().map_err(|error| plain(&error.to_string()))?;
    match matcher.compute_mask() {
        Ok(mask) => Ok((mask, may_end)),
        // That is no fault of the grammar's: no token goes on with it.
        Err(error) if plain(&error.to_string()) == StopReason::NoExtensionBias.to_string() => {
            Ok((side.trie().alloc_token_set(), may_end))
        }
        Err(error) => Err(plain(&error.to_string())),
    }
}

/// Goes on behind these bytes; `false` where the grammar does not allow them, and nothing is changed then.
///
/// # Errors
/// Where the grammar is too complex to say.
pub fn take(matcher: &mut Matcher, side: &Side, bytes: &[u8]) -> Result<bool, String> {
    if matcher.is_stopped() && !matcher.is_error() {
        return Ok(bytes.is_empty());
    }
    let tokens = side.trie().greedy_tokenize(bytes);
    let failed = |error: Box<dyn std::error::Error + Send + Sync>| plain(&error.to_string());
    let valid = matcher.validate_tokens(&tokens).map_err(|error| failed(error.into()))?;
    let whole = side.trie().decode(&tokens) == bytes;
    if valid < tokens.len() || !whole {
        return Ok(false);
    }
    matcher.consume_tokens(&tokens).map_err(|error| failed(error.into()))?;
    Ok(true)
}
