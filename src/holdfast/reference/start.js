"use strict";
// No validator: it would send the document to another host.
window.SwaggerUIBundle({
  url: "../openapi.json",
  dom_id: "#reference",
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  validatorUrl: null,
  deepLinking: true,
  syntaxHighlight: { activated: false },
  presets: [window.SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
});
