//! MongoDB's error codes and their names.

/// Codes with their names, sorted. A code without a name is called `Location<code>`.
const NAMES: &[(i32, &str)] = &[
    (1, "InternalError"),
    (2, "BadValue"),
    (4, "NoSuchKey"),
    (5, "GraphContainsCycle"),
    (6, "HostUnreachable"),
    (7, "HostNotFound"),
    (8, "UnknownError"),
    (9, "FailedToParse"),
    (10, "CannotMutateObject"),
    (11, "UserNotFound"),
    (12, "UnsupportedFormat"),
    (13, "Unauthorized"),
    (14, "TypeMismatch"),
    (15, "Overflow"),
    (16, "InvalidLength"),
    (17, "ProtocolError"),
    (18, "AuthenticationFailed"),
    (20, "IllegalOperation"),
    (21, "EmptyArrayOperation"),
    (22, "InvalidBSON"),
    (24, "LockTimeout"),
    (26, "NamespaceNotFound"),
    (27, "IndexNotFound"),
    (28, "PathNotViable"),
    (29, "NonExistentPath"),
    (30, "InvalidPath"),
    (31, "RoleNotFound"),
    (34, "CannotBackfillArray"),
    (40, "ConflictingUpdateOperators"),
    (43, "CursorNotFound"),
    (47, "NoMatchingDocument"),
    (48, "NamespaceExists"),
    (50, "MaxTimeMSExpired"),
    (52, "DollarPrefixedFieldName"),
    (53, "InvalidIdField"),
    (54, "NotSingleValueField"),
    (55, "InvalidDBRef"),
    (56, "EmptyFieldName"),
    (57, "DottedFieldName"),
    (59, "CommandNotFound"),
    (61, "ShardKeyNotFound"),
    (62, "OplogOperationUnsupported"),
    (64, "WriteConcernTimeout"),
    (65, "MultipleErrorsOccurred"),
    (66, "ImmutableField"),
    (67, "CannotCreateIndex"),
    (68, "IndexAlreadyExists"),
    (72, "InvalidOptions"),
    (73, "InvalidNamespace"),
    (76, "NoReplicationEnabled"),
    (79, "UnknownReplWriteConcern"),
    (85, "IndexOptionsConflict"),
    (86, "IndexKeySpecsConflict"),
    (89, "NetworkTimeout"),
    (91, "ShutdownInProgress"),
    (93, "InvalidReplicaSetConfig"),
    (94, "NotYetInitialized"),
    (96, "OperationFailed"),
    (97, "NoProjectionFound"),
    (98, "DBPathInUse"),
    (100, "UnsatisfiableWriteConcern"),
    (111, "NotExactValueField"),
    (112, "WriteConflict"),
    (115, "CommandNotSupported"),
    (116, "DocTooLargeForCapped"),
    (117, "ConflictingOperationInProgress"),
    (120, "OplogStartMissing"),
    (121, "DocumentValidationFailure"),
    (123, "NotAReplicaSet"),
    (125, "CommandFailed"),
    (133, "FailedToSatisfyReadPreference"),
    (134, "ReadConcernMajorityNotAvailableYet"),
    (136, "CappedPositionLost"),
    (139, "JSInterpreterFailure"),
    (143, "CursorInUse"),
    (146, "ExceededMemoryLimit"),
    (148, "ReadConcernMajorityNotEnabled"),
    (159, "DurationOverflow"),
    (161, "IncompatibleCollationVersion"),
    (162, "CollectionIsEmpty"),
    (165, "ViewDepthLimitExceeded"),
    (166, "CommandNotSupportedOnView"),
    (167, "OptionNotSupportedOnView"),
    (168, "InvalidPipelineOperator"),
    (170, "TooManyMatchingDocuments"),
    (171, "CannotIndexParallelArrays"),
    (175, "QueryPlanKilled"),
    (181, "AmbiguousIndexKeyPattern"),
    (182, "InvalidViewDefinition"),
    (183, "ClientMetadataMissingField"),
    (184, "ClientMetadataAppNameTooLarge"),
    (185, "ClientMetadataDocumentTooLarge"),
    (186, "ClientMetadataCannotBeMutated"),
    (187, "LinearizableReadConcernError"),
    (189, "PrimarySteppedDown"),
    (195, "ViewPipelineMaxSizeExceeded"),
    (197, "InvalidIndexSpecificationOption"),
    (201, "CannotBuildIndexKeys"),
    (205, "ClusterTimeFailsRateLimiter"),
    (206, "NoSuchSession"),
    (207, "InvalidUUID"),
    (211, "KeyNotFound"),
    (213, "DuplicateSession"),
    (215, "DatabaseDropPending"),
    (217, "IncompleteTransactionHistory"),
    (218, "UpdateOperationFailed"),
    (221, "IndexModified"),
    (222, "CloseChangeStream"),
    (223, "IllegalOpMsgFlag"),
    (224, "QueryFeatureNotAllowed"),
    (225, "TransactionTooOld"),
    (226, "AtomicityFailure"),
    (227, "CannotImplicitlyCreateCollection"),
    (232, "MaxSubPipelineDepthExceeded"),
    (233, "TooManyDocumentSequences"),
    (234, "RetryChangeStream"),
    (235, "InternalErrorNotSupported"),
    (237, "CursorKilled"),
    (238, "NotImplemented"),
    (239, "SnapshotTooOld"),
    (241, "ConversionFailure"),
    (242, "CannotCreateCollection"),
    (246, "SnapshotUnavailable"),
    (251, "NoSuchTransaction"),
    (256, "TransactionCommitted"),
    (257, "TransactionTooLarge"),
    (260, "InvalidResumeToken"),
    (261, "TooManyLogicalSessions"),
    (262, "ExceededTimeLimit"),
    (263, "OperationNotSupportedInTransaction"),
    (264, "TooManyFilesOpen"),
    (267, "PreparedTransactionInProgress"),
    (276, "IndexBuildAborted"),
    (278, "UnsatisfiableCommitQuorum"),
    (279, "ClientDisconnect"),
    (280, "ChangeStreamFatalError"),
    (285, "IndexBuildAlreadyInProgress"),
    (286, "ChangeStreamHistoryLost"),
    (288, "ChecksumMismatch"),
    (290, "TransactionExceededLifetimeLimitSeconds"),
    (291, "NoQueryExecutionPlans"),
    (292, "QueryExceededMemoryLimitNoDiskUseAllowed"),
    (301, "DataCorruptionDetected"),
    (314, "ObjectIsBusy"),
    (322, "APIVersionError"),
    (323, "APIStrictError"),
    (324, "APIDeprecationError"),
    (334, "MechanismUnavailable"),
    (346, "ChangeStreamInvalidated"),
    (347, "APIMismatchError"),
    (349, "KeyPatternShorterThanBound"),
    (352, "UnsupportedOpQueryCommand"),
    (357, "InvalidBSONType"),
    (358, "TransactionTooLargeForCache"),
    (359, "CannotConvertIndexToUnique"),
    (361, "CollectionUUIDMismatch"),
    (365, "TemporarilyUnavailable"),
    (371, "UserWritesBlocked"),
    (378, "NonConformantBSON"),
    (391, "ReauthenticationRequired"),
    (402, "ResourceExhausted"),
    (9001, "SocketException"),
    (10003, "CannotGrowDocumentInCappedNamespace"),
    (10107, "NotWritablePrimary"),
    (10334, "BSONObjectTooLarge"),
    (11000, "DuplicateKey"),
    (11600, "InterruptedAtShutdown"),
    (11601, "Interrupted"),
    (11602, "InterruptedDueToReplStateChange"),
    (12586, "BackgroundOperationInProgressForDatabase"),
    (12587, "BackgroundOperationInProgressForNamespace"),
    (13113, "MergeStageNoMatchingDocument"),
    (13297, "DatabaseDifferCase"),
    (13435, "NotPrimaryNoSecondaryOk"),
    (13436, "NotPrimaryOrSecondary"),
    (14031, "OutOfDiskSpace"),
    (46841, "ClientMarkedKilled"),
];

/// The `codeName` of a code.
pub(crate) fn name(code: i32) -> String {
    match NAMES.binary_search_by_key(&code, |(code, _)| *code) {
        Ok(at) => NAMES[at].1.to_owned(),
        Err(_) => format!("Location{code}"),
    }
}

/// The codes that this crate raises or checks. The lower layers define their own.
pub(crate) mod code {
    pub(crate) const INTERNAL_ERROR: i32 = 1;
    pub(crate) const BAD_VALUE: i32 = 2;
    pub(crate) const FAILED_TO_PARSE: i32 = 9;
    pub(crate) const UNAUTHORIZED: i32 = 13;
    pub(crate) const TYPE_MISMATCH: i32 = 14;
    pub(crate) const INVALID_LENGTH: i32 = 16;
    pub(crate) const PROTOCOL_ERROR: i32 = 17;
    pub(crate) const ILLEGAL_OPERATION: i32 = 20;
    pub(crate) const NAMESPACE_NOT_FOUND: i32 = 26;
    pub(crate) const CURSOR_NOT_FOUND: i32 = 43;
    pub(crate) const COMMAND_NOT_FOUND: i32 = 59;
    pub(crate) const INDEX_ALREADY_EXISTS: i32 = 68;
    pub(crate) const INVALID_OPTIONS: i32 = 72;
    pub(crate) const INVALID_NAMESPACE: i32 = 73;
    pub(crate) const UNKNOWN_REPL_WRITE_CONCERN: i32 = 79;
    pub(crate) const OPERATION_FAILED: i32 = 96;
    pub(crate) const UNSATISFIABLE_WRITE_CONCERN: i32 = 100;
    pub(crate) const UNSATISFIABLE_COMMIT_QUORUM: i32 = 278;
    pub(crate) const CURSOR_IN_USE: i32 = 143;
    pub(crate) const CURSOR_KILLED: i32 = 237;
    pub(crate) const COMMAND_NOT_IN_TRANSACTION: i32 = 125;
    pub(crate) const HOST_UNREACHABLE: i32 = 6;
    pub(crate) const TRANSACTION_TOO_OLD: i32 = 225;
    pub(crate) const SNAPSHOT_TOO_OLD: i32 = 239;
    pub(crate) const NO_SUCH_TRANSACTION: i32 = 251;
    pub(crate) const TRANSACTION_COMMITTED: i32 = 256;
    pub(crate) const TRANSACTION_TOO_LARGE: i32 = 257;
    pub(crate) const TRANSACTION_TOO_LARGE_FOR_CACHE: i32 = 358;
    pub(crate) const NOT_IMPLEMENTED: i32 = 238;
    pub(crate) const OPERATION_NOT_SUPPORTED_IN_TRANSACTION: i32 = 263;
    pub(crate) const DATA_CORRUPTION_DETECTED: i32 = 301;
    pub(crate) const COLLECTION_UUID_MISMATCH: i32 = 361;
    pub(crate) const MECHANISM_UNAVAILABLE: i32 = 334;
    pub(crate) const API_VERSION_ERROR: i32 = 322;
    pub(crate) const API_STRICT_ERROR: i32 = 323;
    pub(crate) const UNSUPPORTED_OP_QUERY_COMMAND: i32 = 352;
    pub(crate) const NOT_WRITABLE_PRIMARY: i32 = 10107;
    pub(crate) const NOT_PRIMARY_NO_SECONDARY_OK: i32 = 13435;
    pub(crate) const NOT_PRIMARY_OR_SECONDARY: i32 = 13436;
    pub(crate) const WRITE_CONCERN_TIMEOUT: i32 = 64;
    pub(crate) const INTERRUPTED_AT_SHUTDOWN: i32 = 11600;
    pub(crate) const IDL_DUPLICATE_FIELD: i32 = 40413;
    pub(crate) const IDL_MISSING_FIELD: i32 = 40414;
    pub(crate) const IDL_UNKNOWN_FIELD: i32 = 40415;
    pub(crate) const API_PARAMETERS_WITHOUT_VERSION: i32 = 4886600;

    /// Codes that a write command raises only after it has begun to write.
    pub(crate) const AFTER_BEGINNING: [i32; 9] = [26, 27, 48, 66, 85, 86, 112, 121, 11000];

    /// Codes after which a transaction may succeed if it is begun anew.
    pub(crate) const TRANSIENT: [i32; 6] = [24, 112, 239, 246, 251, 267];

    /// Codes after which drivers ask the server for its part in the replica set.
    pub(crate) const STATE_CHANGE: [i32; 3] =
        [NOT_WRITABLE_PRIMARY, NOT_PRIMARY_NO_SECONDARY_OK, NOT_PRIMARY_OR_SECONDARY];

    /// Codes after which a retry of a retryable write may succeed.
    pub(crate) const RETRYABLE: [i32; 12] = [6, 7, 89, 91, 134, 189, 262, 9001, 10107, 11600, 11602, 13435];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_found() {
        assert!(NAMES.is_sorted_by_key(|(code, _)| *code));
        assert_eq!(name(11000), "DuplicateKey");
        assert_eq!(name(40415), "Location40415");
    }
}
