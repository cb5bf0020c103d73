//! The JSON Schema of an arm file, for editors. The types say what they can; what they read by hand is said here.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, json_schema};
use serde_json::{Map, Value, json};

use super::{
    AcceptBatch, AcceptPolicy, Answer, Arm, Bound, Expectations, Flags, KernelRange, PerSecond,
    Published, Rate, Requests, Share, Sources, Span, SysctlValue,
};
use crate::figure::NAMED;

/// The schema of an arm file: an [`Arm`], and the matrix that a file may have beside it.
pub fn arm_file_schema() -> Schema {
    let mut schema = SchemaSettings::draft2020_12()
        .for_deserialize()
        .into_generator()
        .into_root_schema_for::<Arm>();
    schema.insert("title".into(), "Arm file of backlog-lab".into());
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.insert(
            "matrix".into(),
            json!({
                "description": "A list of levels for a key; the product of all lists is expanded.",
                "type": "object",
                "additionalProperties": {
                    "description": "The levels of a key, or a table of keys below it.",
                    "type": ["array", "object"]
                }
            }),
        );
    }
    if let Some(client) = schema.pointer_mut("/$defs/ClientSpec/properties") {
        steps(client);
    }
    schema
}

/// What a file may write for the load over time: lists of steps, and how long each of them lasts.
fn steps(client: &mut Value) {
    for key in ["rate", "concurrency"] {
        let mut one = client[key].take();
        let description = one
            .as_object_mut()
            .and_then(|one| one.remove("description"));
        client[key] = json!({
            "description": description,
            "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }]
        });
    }
    client["step"] = client["duration"].clone();
}

/// A type that an arm file writes as something simpler.
macro_rules! written_as {
    ($type:ty, $name:literal, $generator:ident => $schema:expr) => {
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema($generator: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    };
}

written_as!(Span, "Span", _generator => json_schema!({
    "description": "A duration: a number with its unit, at most a day.",
    "type": "string",
    "examples": ["250us", "80ms", "1.4s", "2m"]
}));

written_as!(Bound, "Bound", _generator => json_schema!({
    "description": "A number, \"a..=b\", \">n\" or \"<n\".",
    "type": ["number", "string"]
}));

written_as!(KernelRange, "KernelRange", _generator => json_schema!({
    "description": "Kernel releases: \">=6.5\", \"<6.5\", or both joined by a comma.",
    "type": "string"
}));

written_as!(SysctlValue, "SysctlValue", _generator => json_schema!({
    "description": "A whole number, or a text such as \"32768 60999\".",
    "type": ["integer", "string"]
}));

written_as!(Flags, "Flags", _generator => json_schema!({
    "description": "TCP flags, all of them and no other: SYN, FIN, RST, PSH, ACK, joined by a plus.",
    "type": "string",
    "examples": ["SYN", "SYN+ACK"]
}));

written_as!(Share, "Share", _generator => json_schema!({
    "description": "A share of all packets, from \"0%\" to \"100%\".",
    "type": "string",
    "examples": ["0.5%", "10%"]
}));

written_as!(Rate, "Rate", _generator => json_schema!({
    "description": "Bits per second with their unit.",
    "type": "string",
    "examples": ["512kbit", "10mbit"]
}));

written_as!(PerSecond, "PerSecond", _generator => json_schema!({
    "description": "Connections per second.",
    "type": "string",
    "examples": ["0.5/s", "150/s"]
}));

written_as!(Requests, "Requests", _generator => json_schema!({
    "description": "A number, or in a closed loop \"unlimited\".",
    "anyOf": [{ "type": "integer", "minimum": 1 }, { "const": "unlimited" }]
}));

written_as!(Sources, "Sources", _generator => json_schema!({
    "description": "An address, or the first and the last of a row.",
    "type": "string",
    "examples": ["127.0.0.10", "127.0.0.10-127.0.0.19"]
}));

written_as!(AcceptPolicy, "AcceptPolicy", generator => json_schema!({
    "description": "In a loop, never, or by plan: from each time on, up to so many.",
    "anyOf": [
        { "enum": ["loop", "never"] },
        { "type": "array", "minItems": 1, "items": generator.subschema_for::<AcceptBatch>() }
    ]
}));

written_as!(Answer, "Answer", _generator => json_schema!({
    "description": "\"OK\" is right, any other word is wrong (with http: a status such as \"503\"), \"close\" and \"reset\" are no answer; a list is used in turn.",
    "anyOf": [
        { "type": "string", "minLength": 1 },
        { "type": "array", "minItems": 1, "items": { "type": "string", "minLength": 1 } }
    ]
}));

written_as!(Expectations, "Expectations", generator => {
    let bound = generator.subschema_for::<Bound>();
    let mut properties = figures(&bound);
    let kernel = generator.subschema_for::<KernelRange>();
    properties.insert("kernel".into(), kernel.to_value());
    json_schema!({
        "description": "What every valid trial must meet.",
        "type": "object",
        "properties": properties,
        "patternProperties": { (COUNTER): bound },
        "additionalProperties": false
    })
});

written_as!(Published, "Published", _generator => {
    let number = json_schema!({ "type": "number" });
    let mut properties = figures(&number);
    properties.insert("source".into(), json!({ "type": "string" }));
    json_schema!({
        "description": "Figures that somebody published for this experiment.",
        "type": "object",
        "properties": properties,
        "patternProperties": { (COUNTER): number },
        "required": ["source"],
        "additionalProperties": false
    })
});

/// A kernel counter, of the server's namespace or of the client's.
const COUNTER: &str = r"^(client\.)?[A-Za-z]+\..+$";

/// Every named figure with what it means.
fn figures(value: &Schema) -> Map<String, Value> {
    NAMED
        .iter()
        .map(|(name, meaning)| {
            let mut value = value.clone().to_value();
            value["description"] = Value::from(*meaning);
            ((*name).to_owned(), value)
        })
        .collect()
}
