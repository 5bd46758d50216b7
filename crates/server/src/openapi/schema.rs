//! Pieces of JSON Schema.

use serde_json::{Map, Value, json};

/// Fields by their names.
pub type Fields = Map<String, Value>;

/// The fields of an object that was written out.
pub fn fields(object: Value) -> Fields {
    match object {
        Value::Object(fields) => fields,
        _ => Fields::new(),
    }
}

/// Several groups of fields.
pub fn all<const N: usize>(groups: [Fields; N]) -> Fields {
    groups.into_iter().flatten().collect()
}

/// The body of a request: these fields and no others. A field that need not be there may be null.
pub fn request(fields: Fields, required: &[&str]) -> Value {
    let optional = |(name, schema): (String, Value)| {
        let schema = if required.contains(&name.as_str()) { schema } else { or_null(schema) };
        (name, schema)
    };
    let properties: Fields = fields.into_iter().map(optional).collect();
    let mut body = json!({ "type": "object", "properties": properties, "additionalProperties": { "type": "null" } });
    if !required.is_empty() {
        body["required"] = required.into();
    }
    body
}

/// The same with null besides.
fn or_null(mut schema: Value) -> Value {
    if schema.get("type").is_none() && schema.get("enum").is_none() && schema.get("anyOf").is_none() {
        return match schema.get("$ref") {
            Some(_) => json!({ "anyOf": [schema, { "type": "null" }] }),
            // Anything.
            None => schema,
        };
    }
    if let Some(kinds) = schema.get_mut("type") {
        *kinds = match kinds.take() {
            Value::Array(mut all) => {
                all.push("null".into());
                all.into()
            }
            one => json!([one, "null"]),
        };
    }
    if let Some(values) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        values.push(Value::Null);
    }
    if let Some(kinds) = schema.get_mut("anyOf").and_then(Value::as_array_mut) {
        kinds.push(json!({ "type": "null" }));
    }
    schema
}

/// An object with these fields at least.
pub fn object(properties: Value) -> Value {
    let required: Vec<&String> = properties.as_object().into_iter().flat_map(Map::keys).collect();
    json!({ "type": "object", "required": required, "properties": properties })
}

/// An object that may have these fields, and others that change nothing.
pub fn loose(required: &[&str], properties: Value) -> Value {
    json!({ "type": "object", "required": required, "properties": properties })
}

/// An object of one kind, by its field `type`.
pub fn kind(name: &str, required: &[&str], mut properties: Value) -> Value {
    properties["type"] = json!({ "const": name });
    let required: Vec<&str> = ["type"].iter().chain(required).copied().collect();
    loose(&required, properties)
}

/// A list.
pub fn list(items: Value) -> Value {
    json!({ "type": "array", "items": items })
}

/// One of several.
pub fn any<const N: usize>(schemas: [Value; N]) -> Value {
    json!({ "anyOf": Vec::from(schemas) })
}

/// A schema among the components.
pub fn named(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// A text.
pub fn text() -> Value {
    json!({ "type": "string" })
}

/// True or false.
pub fn flag() -> Value {
    json!({ "type": "boolean" })
}

/// A number.
pub fn number() -> Value {
    json!({ "type": "number" })
}

/// A whole number, this at least.
pub fn whole(least: i64) -> Value {
    json!({ "type": "integer", "minimum": least })
}
