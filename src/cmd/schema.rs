//! `backlog-lab schema`.

use std::process::ExitCode;

use super::print_json;
use crate::arm::arm_file_schema;
use crate::cli::Document;
use crate::error::Error;
use crate::result::results_schema;

pub(super) fn schema(document: Document) -> Result<ExitCode, Error> {
    let schema = match document {
        Document::Arm => arm_file_schema(),
        Document::Results => results_schema(),
    };
    print_json(&schema)?;
    Ok(ExitCode::SUCCESS)
}
