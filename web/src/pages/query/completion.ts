// Completes fields, operators and stages.

import type { Completions } from '../../ui/editor.tsx';
import type { FieldSummary } from './analysis.ts';
import type { Kind } from './request.ts';

const words = (text: string): string[] => text.trim().split(/\s+/);

const STAGES = words(`$addFields $bucket $bucketAuto $collStats $count $facet $graphLookup $group $indexStats $limit $lookup $match $merge $out
  $project $redact $replaceRoot $replaceWith $sample $set $setWindowFields $skip $sort $sortByCount $unionWith $unset $unwind`);

const QUERY_OPERATORS = words(`$all $and $bitsAllClear $bitsAllSet $bitsAnyClear $bitsAnySet $elemMatch $eq $exists $expr $gt $gte $in $jsonSchema
  $lt $lte $mod $ne $nin $nor $not $or $regex $size $type`);

const SELECTOR_OPERATORS = words('$all $allMatch $and $beginsWith $elemMatch $eq $exists $gt $gte $in $keyMapMatch $lt $lte $mod $ne $nin $nor $not $or $regex $size $type');

const EXPRESSIONS = words(`$abs $add $addToSet $arrayElemAt $avg $ceil $concat $concatArrays $cond $convert $count $dateAdd $dateDiff
  $dateFromString $dateToString $dateTrunc $dayOfMonth $dayOfWeek $dayOfYear $divide $filter $first $floor $getField $hour $ifNull $indexOfArray
  $isArray $isNumber $last $let $literal $ln $log $map $max $mergeObjects $min $minute $month $multiply $objectToArray $pow $push $range $reduce
  $regexFind $regexMatch $replaceAll $replaceOne $reverseArray $round $second $setDifference $setIntersection $setUnion $size $slice $split $sqrt
  $stdDevPop $stdDevSamp $strLenCP $substrCP $subtract $sum $switch $toBool $toDate $toDouble $toInt $toLower $toObjectId $toString $toUpper $trim
  $trunc $type $week $year $zip`);

const MEMBERS = words('selector fields sort limit skip use_index bookmark execution_stats');

interface Option {
  label: string;
  type: string;
  detail?: string;
  boost?: number;
  apply?: string;
}

/** Completions for a query of a kind. `fields` returns what is known of the documents' fields. */
export function completionsFor(kind: Kind, fields: () => readonly FieldSummary[]): Completions {
  const operators = kind === 'selector' ? SELECTOR_OPERATORS : QUERY_OPERATORS;
  return (context) => {
    const word = context.matchBefore(/["']?\$?\$?[\w.]*/);
    if (!word || (word.text === '' && !context.explicit)) return null;
    const isQuoted = /^["']/.test(word.text);
    const from = isQuoted ? word.from + 1 : word.from;
    const options: Option[] = [];
    const isStage = kind === 'pipeline' && depthAt(context.state.sliceDoc(0, from)) <= 1;
    for (const stage of kind === 'pipeline' ? STAGES : []) options.push({ label: stage, type: 'keyword', detail: 'stage', boost: isStage ? 2 : -1 });
    for (const operator of operators) options.push({ label: operator, type: 'function', detail: 'operator' });
    if (kind === 'pipeline' && !isStage) for (const operator of EXPRESSIONS) if (!operators.includes(operator)) options.push({ label: operator, type: 'function', detail: 'expression' });
    for (const { path, types } of fields()) {
      const detail = [...types.keys()].join(', ');
      const needsQuotes = !isQuoted && (kind === 'selector' || !/^[A-Za-z_$][\w$]*$/.test(path));
      options.push({ label: path, type: 'property', detail, boost: 1, apply: needsQuotes ? JSON.stringify(path) : undefined });
      if (kind === 'pipeline' && isQuoted) options.push({ label: `$${path}`, type: 'variable', detail });
    }
    if (kind === 'selector') for (const member of MEMBERS) options.push({ label: member, type: 'keyword', apply: isQuoted ? undefined : JSON.stringify(member) });
    return { from, options, validFor: /^\$?\$?[\w.]*$/ };
  };
}

/** How many braces are open at the end of a text. */
function depthAt(text: string): number {
  let depth = 0;
  for (const [part] of text.matchAll(/"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|[{}]/g)) {
    if (part === '{') depth++;
    if (part === '}') depth--;
  }
  return depth;
}
